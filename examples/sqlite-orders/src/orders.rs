//! An order: the row, the outbox message and the reply commit together, or none of them does.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use idem_core::outbox::OutboxMessage;
use idem_http::handler::{Checked, Done, Exec, Fault};
use idem_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    sku: String,
}

/// The handler: its first and its last two lines are what idem asks of it.
pub(crate) async fn create_order(
    exec: Exec,
    State(store): State<SqliteStore>,
    Checked(Json(order)): Checked<Json<Order>>,
) -> Result<Done, Fault> {
    let mut transaction = exec.transaction(&store).await?;
    sqlx::query("INSERT INTO orders (sku) VALUES (?)")
        .bind(&order.sku)
        .execute(transaction.connection())
        .await?;
    transaction.push(&OutboxMessage::json("order.created", &order)?).await?;
    let reply = exec.reply((StatusCode::CREATED, Json(order))).await?;
    Ok(transaction.commit(reply).await?.into())
}
