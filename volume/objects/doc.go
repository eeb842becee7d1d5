// Package objects is where pods get what they refer to by name: config maps, secrets,
// tokens of service accounts, trust bundles, what is said of CSI drivers. Volumes,
// environment variables and image pulls are served by the same object.
//
// ConfigMaps, Secrets, Tokens, TrustBundles and CSIDrivers are what an agent implements on its API
// server. Two implementations are here: Memory, for tests, and Dir, for agents without
// an API server, which serves the files of a folder:
//
//	configmaps/NAMESPACE/NAME.yaml   a ConfigMap, v1
//	secrets/NAMESPACE/NAME.yaml      a Secret, v1; stringData counts
//	trustbundles/NAME.yaml           a ClusterTrustBundle, certificates.k8s.io
//	csidrivers/NAME.yaml             a CSIDriver, storage.k8s.io/v1
//	tokens/NAMESPACE/NAME.yaml       the token of service account NAME: a TokenRequest,
//	                                 authentication.k8s.io/v1, with its status
//
// Each file holds one object, YAML or JSON, decoded strictly, with at most 1 MiB of data
// (and 2 MiB of text). metadata.name and metadata.namespace may be left out. Of a
// TokenRequest, status.token counts, spec.audiences (those that the token is for) and
// status.expirationTimestamp, without which the token itself says when it expires if it
// is a JSON Web Token:
//
//	apiVersion: authentication.k8s.io/v1
//	kind: TokenRequest
//	spec: {audiences: [vault]}
//	status: {token: eyJhbGciOi...}
//
// Dir reads a file once per change, however many pods use the object, and tells at once
// which objects have changed. A file that turns bad leaves the last good version in use,
// and is named by Problems. An object with immutable: true is read once as long as its
// file is there. Only regular files are read, and a file system that does not answer
// holds up no other file.
//
// TokenCache stands in front of a Tokens that issues a new token at each call. References
// names the objects that a pod refers to.
//
// An example that runs: ExampleDir in dir_test.go.
package objects
