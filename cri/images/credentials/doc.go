// Package credentials finds what a pod may show a registry to pull an image: in
// the pull secrets that its spec names, in the node's docker configuration, and
// from credential provider plugins.
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
// The order of a Chain is the order in which the credentials are tried; the one
// above is the kubelet's.
//
// # Which entry opens which image
//
// All sources are keyrings below: entries named by a registry, with or without the
// beginning of a path, "*.example.com:5000/team". An entry fits an image whose
// registry has the same port and as many parts between dots, each equal or matched
// by a pattern, and whose path begins with the entry's. Of several, the most specific
// comes first. What has no registry is looked up as an image of docker.io.
//
// # Whose a credential is
//
// A Credential says where it comes from, so that package records can tell later who
// may use an image that is already there: pods with that secret or service account,
// or every pod on the node.
//
// # What is kept
//
// The node's configuration is read again after five minutes. What plugins answer
// is kept for as long as they say. Pull secrets are asked for each time; whoever
// implements Secrets caches them. Nothing is written to disk, and no error or log
// line contains a secret.
//
// An example that runs: Example in example_test.go.
package credentials
