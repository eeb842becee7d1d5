package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// bystander is a pod that is independent of the tested changes. A later check proves that it was
// unaffected.
type bystander struct {
	node *node
	pod  string
	was  v1.Pod
	// since is the name of an event about the pod at the time of was. Events of the pod's start may
	// be written later, but their names have earlier times.
	since string
}

// newBystander starts a bystander. It belongs to a DaemonSet with all tolerations, so that drains
// and taints do not affect it, and its probes run each second.
func (n *node) newBystander(t *testing.T) *bystander {
	t.Helper()
	n.apply(t, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: bystander}
spec:
  selector: {matchLabels: {app: bystander}}
  template:
    metadata: {labels: {app: bystander}}
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      dnsPolicy: Default # otherwise an event reports the missing cluster DNS
      tolerations: [{operator: Exists}]
      containers:
      - name: c
        image: TESTPROG
        args: [http, ":8080"]
        readinessProbe: {httpGet: {port: 8080, path: /healthz}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 10}
        livenessProbe: {httpGet: {port: 8080, path: /healthz}, periodSeconds: 1, timeoutSeconds: 10}
`)
	b := &bystander{node: n}
	n.until(t, "the bystander exists", func() error {
		pods := n.podsOfApp(t, "bystander")
		if len(pods) != 1 {
			return fmt.Errorf("%d pods", len(pods))
		}
		b.pod = pods[0].Name
		return nil
	})
	n.ready(t, b.pod)
	n.waitPodEvent(t, b.pod, "Scheduled", "") // the scheduler may date it after the pod's start
	b.was, b.since = b.now(t), fmt.Sprintf("%s.%x", b.pod, time.Now().UnixNano())
	return b
}

func (b *bystander) now(t *testing.T) (pod v1.Pod) {
	t.Helper()
	_, err := b.node.reader.read("/api/v1/namespaces/"+b.node.namespace+"/pods/"+b.pod, &pod)
	require.NoError(t, err)
	return pod
}

// requireUndisturbed checks that the pod has the same container, unchanged conditions and no new
// events.
func (b *bystander) requireUndisturbed(t *testing.T) {
	t.Helper()
	now := b.now(t)
	require.Equal(t, b.was.UID, now.UID)
	require.Nil(t, now.DeletionTimestamp)
	require.Equal(t, b.was.Status, now.Status)
	for _, e := range b.node.events(t, b.pod) {
		require.Less(t, e.Name, b.since, "%s: %s", e.Reason, e.Message)
	}
}

// nodeTests are independent tests on one node, by name.
type nodeTests map[string]func(*testing.T, *node)

// runParallel runs all tests in parallel: they mostly wait.
func (n *node) runParallel(t *testing.T, all nodeTests) {
	t.Helper()
	var playing sync.WaitGroup
	for name, play := range all {
		playing.Go(func() { t.Run(name, func(t *testing.T) { play(t, n) }) })
	}
	playing.Wait()
}

func (n *node) waitField(t testing.TB, kind, name, jsonpath, want string) {
	t.Helper()
	n.until(t, kind+" "+name+" "+jsonpath+" is "+want, func() error { return same(want, n.get(t, kind, name, jsonpath)) })
}

func (n *node) waitMatch(t testing.TB, kind, name, jsonpath string, ok func(got string) bool) {
	t.Helper()
	n.until(t, kind+" "+name+" "+jsonpath+" matches", func() error {
		if got := n.get(t, kind, name, jsonpath); !ok(got) {
			return errors.New(got)
		}
		return nil
	})
}

func same(want, got string) error {
	if got != want {
		return fmt.Errorf("%q instead of %q", got, want)
	}
	return nil
}
