//! A test kit: a server in the test's own process, and clients that send exactly the bytes
//! that a test gives them. For the tests of the server and of the command line; no program
//! depends on it.
//!
//! - [`server`]: servers in memory, one for each test.
//! - [`wire`]: PostgreSQL's protocol, byte for byte. [`scram`]: its password exchange, a step
//!   at a time.
//! - [`tls`]: a certificate, and a driver that trusts it alone.
//! - [`http`]: requests to the admin listener, and the metrics in their answers.

pub mod http;
pub mod scram;
pub mod server;
pub mod tls;
pub mod wire;
