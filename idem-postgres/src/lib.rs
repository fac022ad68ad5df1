//! Placeholder: the Postgres store.
