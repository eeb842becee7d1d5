package podwright

// Version is the release of this module that the code is, or becomes when it is tagged.
const Version = "v0.1.0"
