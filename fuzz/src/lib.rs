//! What the fuzz targets check; each target only hands its input over.

pub mod algebra;
pub mod codec;
pub mod exchanges;
pub mod feed;
pub mod index;
pub mod kinds;
pub mod pattern;
pub mod topic;
pub mod websocket;
