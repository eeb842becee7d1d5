// Package apiserver connects a node agent to its API server. It is a typed layer over client-go for
// the kinds of objects that an agent uses. The packages below it implement interfaces of
// podwright's packages:
//
//	pods      the pods of this node as a source, and their statuses as a status.Sink
//	mirrors   the copies of static pods at the server
//	csinodes  the node's CSINode and annotations for its CSI drivers
//	objects   config maps, secrets, tokens and the like, for volumes and environments
//	events    Kubernetes events, correlated and written
//	apitest   an API server in memory, for tests
//
// An example:
//
//	client, err := apiserver.New(apiserver.Config{Kubeconfig: path, UserAgent: "kubelet"})
//	go client.Run(ctx) // follows the file
//	node, err := client.Nodes().Get(ctx, name, metav1.GetOptions{})
//
// The package uses client-go/rest and client-go/tools/cache. It does not use the clientset and its
// informers, because they link every API group of Kubernetes; a test checks this.
//
// # The kubeconfig
//
// New reads the file. Its errors are one line (ConfigError). Run reads the file again when it or a
// certificate that it names changes. The address, the certificate and the token may all change
// without a restart: calls use the new ones at once, watches move within a second. If the changed
// file is unusable, the last valid one stays in use.
//
// A client may be without a usable credential: its certificate has expired, or the kubeconfig does
// not exist yet (Config.Await). Each call then fails at once with Client.Err, and Run waits for
// usable files.
//
// # Calls
//
// The caller runs Run, and passes a context to each call. Calls other than watches also end after
// Config.Limits.Timeout. Errors can be checked with apimachinery's package errors (IsNotFound,
// IsConflict). A response above 32 MiB, an event of a watch above 16 MiB, and responses that exceed
// 32 MiB together are errors that contain the limit. client-go has already repeated a call that failed with 429, or with a 5xx and
// Retry-After.
package apiserver
