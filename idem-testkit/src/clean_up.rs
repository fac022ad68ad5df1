//! Leaves nothing behind in a store that others use too.

use std::sync::Arc;

use idem_core::admin::{Admin, Filter};
use idem_core::key::Scope;

use crate::capability::Capability;
use crate::context::Context;
use crate::failure::{CaseResult, Failure};

/// Removes every record of the scopes that this case made up, where the store has the operator's
/// verbs, and makes sure that they are gone.
pub(crate) async fn clean_up(context: &Context) -> CaseResult {
    if !context.capabilities().has(Capability::Admin) {
        return Ok(());
    }
    let admin = context.connect().await?.admin()?;
    for scope in context.scopes() {
        remove_all(&admin, &scope).await.map_err(|failure| failure.at("cleaning up"))?;
    }
    Ok(())
}

async fn remove_all(admin: &Arc<dyn Admin>, scope: &Scope) -> CaseResult {
    let filter = Filter::all().scope(scope.clone());
    // Each round removes a page; the cases make far fewer records than these rounds hold.
    for _ in 0..100 {
        let page = admin.list(&filter, None, 200).await?;
        if page.records.is_empty() {
            return Ok(());
        }
        for seen in page.records {
            admin.remove(&seen.record.fence()).await?;
        }
    }
    Err(Failure::new("removed records to be gone", "they are still listed"))
}
