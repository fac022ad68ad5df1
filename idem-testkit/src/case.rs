//! A case: one promise of the contract, and how it is tried.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::capability::Capability;
use crate::context::Context;
use crate::failure::CaseResult;

type Run = Arc<dyn Fn(Context) -> BoxFuture<'static, CaseResult> + Send + Sync>;

/// One named case of the suite. [`cases::all`](crate::cases::all) lists them.
#[derive(Clone)]
pub struct Case {
    name: Cow<'static, str>,
    rules: &'static str,
    about: Cow<'static, str>,
    needs: Vec<Capability>,
    run: Run,
}

impl Case {
    pub(crate) fn new<F>(
        name: impl Into<Cow<'static, str>>,
        rules: &'static str,
        about: impl Into<Cow<'static, str>>,
        run: impl Fn(Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = CaseResult> + Send + 'static,
    {
        Self {
            name: name.into(),
            rules,
            about: about.into(),
            needs: Vec::new(),
            run: Arc::new(move |context| Box::pin(run(context))),
        }
    }

    #[must_use]
    pub(crate) fn needing(mut self, needs: &[Capability]) -> Self {
        self.needs.extend_from_slice(needs);
        self
    }

    /// Its name: the section, `::`, and what it tries.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The section it belongs to: the first part of its name.
    pub fn section(&self) -> &str {
        self.name.split("::").next().unwrap_or_default()
    }

    /// The rules that it holds a store to, by number, as in `R2, R8`.
    pub fn rules(&self) -> &'static str {
        self.rules
    }

    /// What has to hold, in a sentence.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// What the fixture must offer.
    pub fn needs(&self) -> &[Capability] {
        &self.needs
    }

    pub(crate) fn run(&self, context: Context) -> BoxFuture<'static, CaseResult> {
        (self.run)(context)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("rules", &self.rules)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}
