// Package apiserver is the connection of a node agent to its API server, and a typed
// layer over it for the few kinds of objects that an agent deals with. The packages below
// it make of that what the rooms of podwright ask for:
//
//	pods      the pods of this node as a source, and their statuses as a status.Sink
//	mirrors   the copies of static pods at the server
//	csinodes  what the node is for its CSI drivers
//	objects   config maps, secrets, tokens and the like, for volumes and environments
//	events    Kubernetes events, correlated and written
//	apitest   an API server in memory, for tests
//
// It stands on client-go/rest and client-go/tools/cache. The clientset and its informers,
// which link every group that Kubernetes has, are not used; a test holds that.
//
//	client, err := apiserver.New(apiserver.Config{Kubeconfig: path, UserAgent: "kubelet"})
//	go client.Run(ctx) // follows the file
//	node, err := client.Nodes().Get(ctx, name, metav1.GetOptions{})
//
// # The kubeconfig
//
// The file is read by New, which says in one line what is wrong with it (ConfigError),
// and again when it or a certificate that it names changes: the address, the certificate
// and the token may all become others without a restart. Calls use the new ones at once,
// watches move within a second. A file that cannot be used any more leaves the last good
// one in force. Run ends with ErrExpired when the client certificate has expired and no
// other one has come.
//
// # What the caller does
//
// It runs Run, and gives each call a context: what is no watch ends after Config.Timeout
// as well. Errors are those of apimachinery's package errors (IsNotFound, IsConflict). A
// call that was refused with 429, or with a 5xx that says when to come back, was repeated
// by client-go already.
package apiserver
