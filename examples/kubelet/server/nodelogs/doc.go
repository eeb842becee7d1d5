// Package nodelogs serves the logs of a node: the files below a folder, and, by query, the
// journal of services (KEP-2258, NodeLogQuery).
//
//	kubectl get --raw /api/v1/nodes/NODE/proxy/logs/
//	kubectl get --raw '/api/v1/nodes/NODE/proxy/logs/?query=containerd&tailLines=10'
//
// Whoever may ask for them may read all of them, and nothing else: names do not leave the
// folder, also not through symbolic links that a pod which can write to it has made, and only
// regular files are opened, so that a pipe of a pod's holds nobody up. An absolute link counts
// as one that leaves, so that the links in /var/log/containers are listed, and the files are
// read where they point, below /var/log/pods.
//
// A query names services of the journal (units) or files. For what journalctl has nothing of,
// the files NAME, NAME.log and NAME/NAME.log are tried. It may narrow what it gets by
// boot, pattern, sinceTime, untilTime and tailLines. At most four services and one file are
// taken, each with a name of at most 256 letters, digits and ".-_@:" ("/" for files).
//
// An example that runs: ExampleHandler in nodelogs_test.go.
package nodelogs
