//! A shipment: a job of several calls elsewhere, which goes on without its client.

use axum::Json;
use idem_core::engine::{Execution, Failure};
use idem_core::operation::{Begun, Operation, OperationBuilder};
use idem_core::reply::Reply;
use idem_http::handler::{Checked, Done, Exec, Fault};
use serde::{Deserialize, Serialize};

use crate::carrier::Carrier;

#[derive(Serialize, Deserialize)]
pub(crate) struct Shipment {
    order: String,
}

/// Resumable, and begun by the handler: what it refuses before that frees the key. With
/// `resumable()` alone the engine marks "begun" first, and a body that is no JSON takes the key.
pub(crate) fn operation() -> OperationBuilder {
    Operation::builder("shipments.create").resumable().begun(Begun::ByHandler)
}

/// The client's way in: checks the request, then does what the reconciler would do.
pub(crate) async fn create_shipment(
    exec: Exec,
    Checked(Json(_)): Checked<Json<Shipment>>,
) -> Result<Done, Fault> {
    Ok(exec.registered().await?.into())
}

/// The job, registered with the engine. It works on the stored input, and after a crash goes on
/// behind the last step whose result is on record.
pub(crate) async fn ship(execution: Execution, carrier: Carrier) -> Result<Reply, Failure> {
    let input = execution.input().ok_or_else(|| Failure::unknown("a job without its input"))?;
    let shipment: Shipment = input.decode_json()?;
    let (carrier, order) = (&carrier, &shipment.order);
    let parcel: String = execution
        .step("book", |key| async move { carrier.call(key.as_str(), "parcel", order).await })
        .await?;
    let parcel = &parcel;
    let label: String = execution
        .step("label", |key| async move { carrier.call(key.as_str(), "label", parcel).await })
        .await?;
    Ok(Reply::json(&serde_json::json!({ "order": order, "label": label }))?.with_status(201)?)
}
