// Package nodelogs serves the logs of a node for cluster administrators: the files below a folder
// and, by query, the journal of services (KEP-2258, NodeLogQuery).
//
//	kubectl get --raw /api/v1/nodes/NODE/proxy/logs/
//	kubectl get --raw '/api/v1/nodes/NODE/proxy/logs/?query=containerd&tailLines=10'
//
// A Handler is safe for concurrent use.
//
// # Files
//
// An authorized client can read all logs in the folder and no other files. Names cannot leave the
// folder, even through symbolic links made by a pod with write access. Only regular files are
// opened, so that a pipe cannot block a request. Absolute links count as leaving the folder: the
// links in /var/log/containers are listed, but their files must be read at their targets below
// /var/log/pods.
//
// # Queries
//
// A query names services of the journal (units) or files. If the journal has no such unit, the
// files NAME, NAME.log and NAME/NAME.log are tried. boot, pattern, sinceTime, untilTime and
// tailLines restrict the lines of the journal. For a file they are refused, as in upstream kubelets:
// with status 406 in a query for a file and in a request for a path below the folder, and with a
// line of the response for a service whose log is a file. A query has at most four services or one
// file, with names of at most 256 letters, digits and ".-_@:" ("/" in files).
//
// A query of services ends after 30 s with its programs, and 16 may be in progress; further ones get
// status 429.
//
// Malformed values get status 400, invalid combinations 406. Two differences from upstream kubelets
// are deliberate: the only service of a query gets status 404 if it has no log, and a query gets
// status 500 if journalctl fails and no file exists. Upstream sends 200 in both cases, which hides
// the problem from programs.
//
// An example that runs: ExampleHandler in nodelogs_test.go.
package nodelogs
