mod convergence;
mod deliveries;
mod docs;
mod message_writer;
mod runtime;
