// Package credentials finds a pod's credentials for pulling an image: in the pull secrets of its
// spec, in the node's docker configuration, and from credential provider plugins.
//
//	secrets, err := credentials.NewPullSecrets(credentials.PullSecretsConfig{Secrets: secrets})
//	...
//	providers, err := credentials.LoadPluginConfig("/etc/kubernetes/providers.yaml")
//	...
//	plugins, err := credentials.NewPlugins(credentials.PluginsConfig{Providers: providers, BinDir: "/opt/plugins"})
//	...
//	source := credentials.Chain(secrets, credentials.NewNodeConfig(files, nil), plugins)
//	found, err := source.Credentials(ctx, pod, "registry.example.com/team/app")
//
// Credentials are tried in the order of the Chain; the order above is the kubelet's.
// All sources are safe for concurrent use.
//
// # Matching
//
// All sources use keyrings. An entry has a registry with an optional path prefix:
// "*.example.com:5000/team". It matches an image whose registry has the same port and the same
// number of dot-separated parts, each equal or matched by a pattern, and whose path begins with
// the entry's. The most specific entry comes first. A name without registry is looked up as an
// image of docker.io.
//
// # Origins
//
// The Origin of a Credential determines the pods that may use the image after the pull (package
// records): pods with that secret or service account, or every pod on the node.
//
// # Caching
//
// The node's configuration is read again after five minutes. Responses of plugins are cached for
// the time that they specify. Pull secrets are not cached here; implementations of Secrets may
// cache them. The package writes no files, and no error or log line contains a secret.
//
// An example that runs: Example in example_test.go.
package credentials
