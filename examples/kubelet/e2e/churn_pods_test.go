package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (c *churn) writeNext(t *testing.T, name string) {
	t.Helper()
	c.version++
	c.writes[name]++
	before, d := c.desired[name], &desiredPod{}
	last := c.inPlace[name]
	if before != nil && last != nil {
		d.tally = last
		d.edits++
	} else {
		d.tally = &tally{start: fmt.Sprintf("%s.%d", name, c.version)}
		c.tallies[d.start] = d.tally
		if last != nil {
			d.earlierRestarts = last.allowedRestarts() + 1
		}
	}
	d.pod = c.newPod(name, d.start)
	if d.pod.UID != "" {
		c.inPlace[name] = d.tally
	}
	c.desired[name] = d
	c.writeManifest(t, name+".yaml", d.pod)
}

// newPod returns the next version of a pod: the first container's content always changes, the
// second one's only if start changes.
func (c *churn) newPod(name, start string) *v1.Pod {
	images := []string{c.images.Testprog, c.images.Testprog2}
	verbs := [][]string{{"run"}, {"ignore"}, {"delay", "200ms"}}
	pod := newPod(name, testprog(images[c.rand.IntN(2)], verbs[c.rand.IntN(3)]...), shell("second", c.images.Busybox, countStarts+untilTerm))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	kind, number, _ := strings.Cut(name, "-")
	i, _ := strconv.Atoi(number)
	switch {
	case name == job:
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.Containers[0] = shell("main", c.images.Busybox, "n=1\n"+untilOrdered+"exit 0")
		pod.Spec.Containers[1].Args[0] = countStarts + untilOrdered + "exit 0"
	case kind == "exit":
		pod.Spec.Containers[1].Args[0] = countStarts + untilOrdered + "exit 3"
	case kind == "churn" && i < inPlacePods:
		pod.UID = types.UID(name + "-" + c.node)
	}
	pod.Spec.HostNetwork = name != "steady-0" && name != "churn-12"
	pod.Spec.Volumes = []v1.Volume{{Name: "orders", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: c.orders}}}}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		container.Env = []v1.EnvVar{
			{Name: programEnv, Value: c.node + "/" + name + "/" + container.Name},
			{Name: "START", Value: start},
		}
		container.VolumeMounts = []v1.VolumeMount{{Name: "orders", MountPath: "/orders"}}
	}
	main := &pod.Spec.Containers[0]
	main.Env = append(main.Env, v1.EnvVar{Name: "VERSION", Value: strconv.Itoa(c.version)})
	return pod
}

const (
	// countStarts appends a line to the pod's file and counts the lines.
	countStarts = "echo started >> /orders/$START\nn=$(wc -l < /orders/$START)\n"
	// untilOrdered runs until the start with this number is ordered to exit.
	untilOrdered = `trap 'exit 0' TERM
while ! [ -e /orders/$START.end ] || [ $(cat /orders/$START.end) -lt $n ]; do sleep 0.1; done
`
)

// orderExit orders the program of a pod's second container to exit.
func (c *churn) orderExit(t *testing.T, name string) {
	t.Helper()
	d := c.desired[name]
	n := c.starts(t, d.start)
	if n == d.ordered {
		return // no new start since the last order
	}
	d.ordered = n
	d.exits++
	file := c.orders + "/" + d.start + ".end"
	require.NoError(t, os.WriteFile(file+".new", []byte(strconv.Itoa(n)), 0o644))
	require.NoError(t, os.Rename(file+".new", file))
}

// starts returns the number of starts that a second container counted.
func (c *churn) starts(t *testing.T, start string) int {
	t.Helper()
	data, err := os.ReadFile(c.orders + "/" + start)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return strings.Count(string(data), "\n")
}

// breakManifest breaks a manifest after the kubelet has read its newest version: that version must
// keep running.
func (c *churn) breakManifest(t *testing.T, name string) {
	t.Helper()
	have, err := c.pod(name)
	d := c.desired[name]
	if err != nil || !equalMain(have, d.pod) {
		return // no kubelet runs, or it has not read the newest version
	}
	c.writeManifestText(t, name+".yaml", "apiVersion: v1\nkind: Pod\nspec: [")
	d.broken = true
}

func equalMain(a, b *v1.Pod) bool {
	return a.Spec.Containers[0].Image == b.Spec.Containers[0].Image && fmt.Sprint(a.Spec.Containers[0].Env) == fmt.Sprint(b.Spec.Containers[0].Env)
}
