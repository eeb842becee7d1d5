package cluster_test

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// described are pods that appear in the output of kubectl describe node.
var described = tolerantPod("guaranteed", `
  containers: [{image: TESTPROG, name: c, resources: {limits: {cpu: 150m, memory: 64Mi}}}]`) + tolerantPod("burstable", `
  initContainers: [{image: BUSYBOX, name: i, command: ["true"], resources: {requests: {cpu: 200m}}}]
  containers: [{image: TESTPROG, name: c, resources: {requests: {cpu: 50m, ephemeral-storage: 1Mi}, limits: {memory: 128Mi}}}]`) + tolerantPod("besteffort", `
  containers: [{image: TESTPROG, name: c}]`) + tolerantPod("ends", `
  restartPolicy: Never
  containers: [{image: BUSYBOX, name: c, command: ["true"], resources: {requests: {cpu: 25m}}}]`) + tolerantPod("refused", `
  containers: [{image: BUSYBOX, name: c, resources: {requests: {cpu: 1000}}}]`)

func tolerantPod(name, spec string) string {
	return boundPod(name, "\n  tolerations: [{operator: Exists}]"+spec)
}

// expectedDifferences lists lines that only one of the nodes has, with the reasons.
var expectedDifferences = map[string]string{
	"ours: System Info: Kubelet Version:  " + kubelet.Version: "the versions differ",
	"upstream: System Info: Kubelet Version:  v1.36.3":        "the versions differ",
	"ours: Events: Warning CgroupV1 kubelet":                  byName,
	"ours: Events: Warning MissingClusterDNS kubelet":         byName,
	"ours: Events: Normal NodeAllocatableEnforced kubelet":    byName,
	"ours: Events: Normal NodeHasNoDiskPressure kubelet":      byName,
	"ours: Events: Normal NodeHasSufficientMemory kubelet":    byName,
	"ours: Events: Normal NodeHasSufficientPID kubelet":       byName,
	"ours: Events: Normal NodeReady kubelet":                  byName,
	"ours: Events: Normal Starting kubelet":                   byName,
}

// optionalEvent is an event that the upstream kubelet usually reports, because it reads the image
// filesystem before its first measurement.
const optionalEvent = "All events: Warning InvalidDiskCapacity kubelet"

// byName is the reason for additional events of ours in the description.
const byName = "kubectl finds events by the Node's UID, or by its name in the UID field; upstream's events have neither since v1.36"

// kubectl describe shows the same for a node of ours and one of the upstream kubelet with the same
// pods, flags and runtime, section by section, except for expectedDifferences. Times and texts of
// events are ignored.
func TestDescribeUpstream(t *testing.T) {
	upstream := upstreamKubelet(t)
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		ours, theirs := describeNode(t, plane, rt, "ours", ""), describeNode(t, plane, rt, "upstream", upstream)
		require.Greater(t, len(theirs), 70, "lines")
		var found []string
		for kubelet, lists := range map[string][2][]string{"ours": {ours, theirs}, "upstream": {theirs, ours}} {
			for _, line := range lists[0] {
				if line != optionalEvent && !slices.Contains(lists[1], line) {
					found = append(found, kubelet+": "+line)
				}
			}
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(expectedDifferences)), found)
	})
}

// describeNode returns the lines of kubectl describe node once the pods are in their final states.
func describeNode(t *testing.T, plane controlplane.Handle, rt tb.Runtime, name, binary string) (lines []string) {
	t.Run(name, func(t *testing.T) {
		n := newStoppedNode(t, plane, rt, func(n *node) {
			n.binary = binary
			tb.MakeCgroups(t, "/podwright-"+n.name) // upstream does not create it
		}, "--make-iptables-util-chains=false", "--node-labels=example.com/zone=a", "--register-with-taints=example.com/for=b:NoSchedule")
		n.start(t)
		n.nodeReady(t)
		n.apply(t, described)
		for _, pod := range []string{"guaranteed", "burstable", "besteffort"} {
			n.ready(t, pod)
		}
		n.waitField(t, "pod", "ends", "{.status.phase}", "Succeeded")
		n.waitField(t, "pod", "refused", "{.status.reason}", "OutOfcpu")
		n.until(t, "the description has the lease and the last events", func() error {
			lines = append(n.describedLines(n.do(t, "describe", "node", n.name)), n.allEvents(t)...)
			for _, last := range []string{
				"Lease: HolderIdentity:  NODE", "All events: Normal NodeReady kubelet", "All events: Normal RegisteredNode node-controller", "All events: Warning MissingClusterDNS kubelet",
			} {
				if !slices.Contains(lines, last) {
					return errors.New(last)
				}
			}
			return nil
		})
	})
	return lines
}

// allEvents returns all events about the node, by any reference.
func (n *node) allEvents(t *testing.T) (lines []string) {
	const each = `{range .items[*]}{.type} {.reason} {.source.component}{"\n"}{end}`
	all := n.do(t, "get", "events", "-A", "--field-selector=involvedObject.kind=Node,involvedObject.name="+n.name, "-o", "jsonpath="+each)
	for line := range strings.Lines(all) {
		lines = append(lines, "All events: "+strings.TrimSpace(line))
	}
	return lines
}

var (
	timePattern = regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} [+-]\d{4}`)
	agePattern  = regexp.MustCompile(`  (\d+[smh])+$`)
	// eventLine matches a line of the event table: type, reason, time, source, text.
	eventLine = regexp.MustCompile(`^(Normal|Warning)  (\w+)  .+?  ([\w-]+)  .*$`)
	spaces    = regexp.MustCompile(` {2,}`)
)

// describedLines returns the lines of a description with their sections, without times and names.
func (n *node) describedLines(text string) (lines []string) {
	var section string
	for line := range strings.Lines(strings.ReplaceAll(text, n.name, "NODE")) {
		if !strings.HasPrefix(line, " ") {
			section, line, _ = strings.Cut(line, ":")
		}
		line = spaces.ReplaceAllString(timePattern.ReplaceAllString(strings.TrimSpace(line), "TIME"), "  ")
		line = eventLine.ReplaceAllString(agePattern.ReplaceAllString(line, "  AGE"), "$1 $2 $3")
		lines = append(lines, section+": "+line)
	}
	return lines
}
