// Controlplane starts a Kubernetes control plane on loopback, and takes it down again:
//
//	GOWORK=off go run -C examples/tools/controlplane .
//
// or around a command, as examples/tools/testbed does for tests:
//
//	GOWORK=off go run -C examples/tools/controlplane . -- kubectl get namespaces
//
// It is a module of its own, in no workspace, since its replacements would reach every
// other module there. For another version of Kubernetes change that of
// k8s.io/kubernetes (v1.x.y) and of all replacements (v0.x.y) in go.mod, take
// etcd's from what k8s.io/apiserver requires, and run GOWORK=off go mod tidy there.
//
// # What runs
//
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each a process of
// its own, with certificates that were made for the run. The API server listens on a
// free port of 127.0.0.1, which stays its own when it is started again, and etcd on a
// socket; the other two listen nowhere. Nodes are authorized by Node and NodeRestriction,
// all others by RBAC. ClusterTrustBundles (v1beta1) are switched on. There is no
// kube-proxy and no DNS: addresses of services lead nowhere.
//
// Everything lies in a temporary folder that only its owner can read, and that goes in
// the end, whichever way this program ends: the programs die with it, and a watchdog
// process removes the folder.
//
// # Environment of the command
//
//	KUBECONFIG              one of a user who may do everything
//	PODWRIGHT_CONTROLPLANE  the folder
//
// With -exports and without a command both are printed as export lines on the standard
// output, once everything answers. The exit code is the command's, or 128 and the signal that ended it; 2 for
// bad usage, 125 when the control plane could not be started.
//
// # Control endpoint
//
// HTTP over the unix socket ctl.sock in the folder:
//
//	GET /                       where everything is, as JSON
//	GET /kubeconfig?user=U&group=G&valid=1h
//	                            a kubeconfig with a new client certificate; for a node that
//	                            is user=system:node:NAME&group=system:nodes; with server=URL
//	                            it is for that, a proxy say
//	GET /programs/NAME          path of a program, which is built if need be: kubectl, or
//	                            kubelet, the upstream one, or metrics-server
//	POST /COMPONENT/VERB        stop (SIGTERM), kill (SIGKILL), pause (SIGSTOP), resume, or
//	                            start, which returns once it answers; data, ports and
//	                            certificates stay the same. COMPONENT is etcd,
//	                            kube-apiserver, kube-controller-manager or kube-scheduler.
//
// # Programs
//
// They are built from the Go module of Kubernetes, which takes minutes, and kept in the
// user's cache folder, below podwright-controlplane, until go.mod, go.sum or their
// main.go change. What has not been used for a week goes with the next build.
package main
