// Controlplane runs a Kubernetes control plane on loopback:
//
//	GOWORK=off go run -C examples/tools/controlplane .
//
// or runs it around a command, as examples/tools/testbed does for tests:
//
//	GOWORK=off go run -C examples/tools/controlplane . -- kubectl get namespaces
//
// It is a module of its own and part of no workspace, because its replacements would affect all
// modules of a workspace. To use another version of Kubernetes, change in go.mod the version of
// k8s.io/kubernetes (v1.x.y), of all replacements (v0.x.y), and of etcd (as in the go.mod of
// k8s.io/apiserver). Then run GOWORK=off go mod tidy there.
//
// # Components
//
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as separate processes, with
// certificates made for the run. The API server listens on a free port of 127.0.0.1 and keeps it
// when it restarts. etcd listens on a socket. The controller manager and the scheduler have no
// port. The Node authorizer and NodeRestriction apply to nodes, RBAC to all users.
// ClusterTrustBundles (v1beta1) are enabled. There is no kube-proxy and no DNS, so cluster IPs of
// services are unreachable.
//
// All files are in a temporary folder that only its owner can read. The components end with this
// program, even on kill -9, and a watchdog process then removes the folder.
//
// # Environment of the command
//
//	KUBECONFIG              the administrator's kubeconfig
//	PODWRIGHT_CONTROLPLANE  the folder
//
// With -exports and without a command, the program prints both as export lines on the standard
// output once every component is ready. The exit code is the command's, or 128 plus the signal
// that ended it. It is 2 for bad usage, and 125 if the control plane could not start.
//
// # Control endpoint
//
// HTTP over the unix socket ctl.sock in the folder:
//
//	GET /                       URL of the API server and paths of files, as JSON
//	GET /kubeconfig?user=U&group=G&valid=1h
//	                            a kubeconfig with a new client certificate; for a node use
//	                            user=system:node:NAME&group=system:nodes; server=URL replaces
//	                            the URL of the API server, for a proxy
//	GET /programs/NAME          path of kubectl, metrics-server or kubelet (the upstream one);
//	                            the first request may build it
//	POST /COMPONENT/VERB        stop (SIGTERM), kill (SIGKILL), pause (SIGSTOP), resume, or
//	                            start, which returns once the component is ready; data, port
//	                            and certificates stay the same. COMPONENT is etcd,
//	                            kube-apiserver, kube-controller-manager or kube-scheduler.
//
// # Programs
//
// The programs are built from the Go module of Kubernetes, which takes minutes. They stay in the
// user's cache folder, below podwright-controlplane, until go.mod, go.sum or their main.go change.
// A build removes programs that were unused for a week.
package main
