//! Whole servers, real sockets, real clients.
