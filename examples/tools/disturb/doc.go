// Disturb disturbs a node and compares the transitions that this kubelet publishes with the upstream
// kubelet's:
//
//	go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/disturb
//	go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/disturb -only agent -runtime v2 -alone
//
// For each disturbance it starts a node with a few pods on a containerd of the testbed, waits until
// they are ready, and applies the disturbance. Meanwhile it reads the Node, the pods, the Endpoints
// and the EndpointSlices every 50 ms, by GET and without a watch. It does the same with the upstream
// kubelet. A kubelet that exits by itself is started again after a second, as by systemd.
//
// # Disturbances
//
//	agent-term             the kubelet is restarted, SIGTERM
//	agent-kill             the same, SIGKILL
//	agent-upgrade          the file of the kubelet is replaced, then SIGTERM and start; -from
//	                       selects the program before the upgrade
//	containerd-term        containerd is restarted, SIGTERM
//	containerd-kill        the same, SIGKILL
//	containerd-away        containerd is stopped for 30 s
//	apiserver-restart      the API server is stopped for 3 s
//	apiserver-away         the same for 60 s
//	apiserver-certificate  the same until the kubelet's client certificate has ended
//	agent-stopped          SIGSTOP for 55 s, as in a suspended machine
//	node-deleted           the Node object is deleted
//
// # Output
//
// For each disturbance and runtime there is a table of the transitions of conditions, taints, pod
// phases, readiness, container states and endpoints, and of the events. A cell has the times of the
// transitions since the start of the disturbance. "X → X again" is a change between two reads: the
// value is the same, but its time or its container differs. The output ends with a summary in
// Markdown for docs/figures.md.
//
// # Flags
//
//	-only REGEXP     apply only the disturbances whose name matches
//	-runtime KEY     v1 (containerd 1.6) or v2 (containerd 2.2); default: both, at the same time
//	-kubelet FILE    the kubelet; default: build examples/kubelet
//	-from FILE       the kubelet before agent-upgrade; default: a copy of the same program
//	-upstream FILE   upstream's kubelet; default: the control plane builds it
//	-alone           do not run upstream's kubelet
//	-results FILE    add the results to this file. The tables include its earlier results, so that
//	                 -alone compares with upstream's of an earlier run.
//	-logs DIR        keep the logs of the kubelets
//
// # Exit code
//
// The exit code is 0 if upstream has every transition of this kubelet and, at the end, each value
// that differs from the value before the disturbance. It is 1 if not, 2 for bad usage, and 3 if a
// step failed. Events and the number and times of transitions do not affect it.
package main
