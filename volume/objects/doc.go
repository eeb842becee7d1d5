// Package objects reads the API objects that pods refer to by name: config maps, secrets,
// service account tokens, trust bundles and CSIDriver objects. One object serves volumes,
// environment variables and image pulls.
//
//	dir, err := objects.NewDir(objects.DirConfig{Path: "/etc/agent/objects", OnChange: changed})
//	go dir.Run(ctx)
//	web, err := dir.ConfigMap(ctx, "shop", "web")
//
// The interfaces are ConfigMaps, Secrets, Tokens, TrustBundles and CSIDrivers. An agent with an
// API server implements them on it and needs no Dir. Pods without such references need no
// implementation. The package has two: Memory for tests, and Dir for agents without an API
// server. Dir serves the files of a folder:
//
//	configmaps/NAMESPACE/NAME.yaml   a ConfigMap, v1
//	secrets/NAMESPACE/NAME.yaml      a Secret, v1; stringData is supported
//	trustbundles/NAME.yaml           a ClusterTrustBundle, certificates.k8s.io
//	csidrivers/NAME.yaml             a CSIDriver, storage.k8s.io/v1
//	tokens/NAMESPACE/NAME.yaml       the token of service account NAME: a TokenRequest,
//	                                 authentication.k8s.io/v1, with its status
//
// Each file has one object in YAML or JSON. It is decoded strictly and may have 1 MiB of data
// and 2 MiB of text. metadata.name and metadata.namespace are optional. These fields of a
// TokenRequest are used: status.token, spec.audiences (the audiences of the token) and
// status.expirationTimestamp. Without the last, the expiry is read from the token if it is a
// JSON Web Token:
//
//	apiVersion: authentication.k8s.io/v1
//	kind: TokenRequest
//	spec: {audiences: [vault]}
//	status: {token: eyJhbGciOi...}
//
// Dir reads a file once per change, independent of the number of pods that use it, and reports
// changed objects at once. If a file becomes invalid, its last valid version is served and
// Problems lists the file. An object with immutable: true is read once. Only regular files are
// read. An unresponsive file system does not delay other files.
//
// TokenCache caches the tokens of a Tokens that issues a new token per call. References lists
// the objects that a pod refers to. All types are safe for concurrent use.
//
// An example that runs: ExampleDir in dir_test.go.
package objects
