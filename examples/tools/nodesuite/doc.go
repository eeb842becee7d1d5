// Nodesuite runs upstream's node suite against a kubelet of this repository, and against
// upstream's kubelet, and compares the results:
//
//	go run ./examples/tools/testbed -- go run ./examples/tools/nodesuite
//
// It builds the suite (k8s.io/kubernetes/test/e2e_node), the programs of its images and both
// kubelets from the module proxy, in some minutes the first time. The suite starts etcd, an API
// server (port 6443) and the kubelet by itself. The table lists each spec that fails with one of
// the kubelets:
//
//	ours  upstream  spec
//	FAIL  ok        [sig-node] Sysctls [LinuxOnly] [NodeConformance] should ...
//	                expected the pod to succeed
//
// The exit code is 1 if a spec passes with upstream's kubelet and fails with ours. Without
// upstream's kubelet (-alone) it is 1 if a spec fails.
//
// # Flags
//
//	-kubelet FILE   the kubelet under test; default: build examples/kubelet
//	-upstream FILE  upstream's kubelet, or the report of an earlier run (*.json); default: build it
//	-alone          run only the kubelet under test
//	-focus REGEXP   run the specs whose name matches
//	-skip REGEXP    omit the specs whose name matches
//	-labels FILTER  Ginkgo's label filter; default: NodeConformance without slow and flaky specs,
//	                or all but flaky specs if there is a focus
//	-serial         run the serial specs instead of the parallel ones; some restart the kubelet
//	-procs N        number of parallel processes (4)
//	-runtime NAME   v1 (containerd 1.6) or v2 (containerd 2.2, the default)
//	-timeout TIME   limit per kubelet (2h)
//	-results DIR    keep reports and logs in DIR, and the table of all specs
//	-suite FILE     a suite that is already built
//
// # Stand-ins
//
// Specs restart the kubelet through systemd. Programs named systemd-run, systemctl and sudo, which
// are this program under other names, precede the system's in the search path of the suite. They
// forward their arguments to this process, which runs the kubelet as its child.
//
// The images have the names of the suite, in the testbed's registry. They consist of Debian's
// busybox, the suite's own programs, and small replacements for nginx, curl, bash and nmeter (applets).
//
// # Effects on the machine
//
// The suite has fixed paths. During a run, /var/lib/kubelet, /var/log/pods and /var/log/containers
// are mount points of empty folders, and kubelet.slice is a cgroup. Only one run is possible at a
// time, and no other kubelet may use these paths.
//
// # Limits
//
// Images that need a public registry, systemd's D-Bus interface, a second NUMA node or swap are
// missing, so some specs fail with both kubelets. Specs that send UDP with nc, or read variables
// with a dash in their name, fail with Debian's busybox.
package main
