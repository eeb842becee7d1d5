package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
)

// watcher records each version of the pods of a namespace.
type watcher struct {
	mu   sync.Mutex
	seen map[types.UID][]*v1.Pod
	err  error
}

// watchPods starts to watch pods, and continues at the last resource version after interruptions.
func (n *node) watchPods(t *testing.T) *watcher {
	t.Helper()
	client, err := apiserver.New(apiserver.Config{Kubeconfig: n.Kubeconfig, UserAgent: "watcher"})
	require.NoError(t, err)
	w := &watcher{seen: map[types.UID][]*v1.Pod{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		client.CloseConnections()
	})
	list, err := client.Pods(n.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		w.record(&list.Items[i])
	}
	running.Go(func() { w.follow(ctx, client, n.namespace, list.ResourceVersion) })
	return w
}

func (w *watcher) follow(ctx context.Context, client *apiserver.Client, namespace, version string) {
	for ctx.Err() == nil {
		stream, err := client.Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			w.setErr(ctx, err)
			return
		}
		for e := range stream.ResultChan() {
			pod, ok := e.Object.(*v1.Pod)
			if !ok {
				w.setErr(ctx, fmt.Errorf("%s: %v", e.Type, e.Object))
				break
			}
			version = pod.ResourceVersion
			if e.Type != watch.Deleted {
				w.record(pod)
			}
		}
		stream.Stop()
	}
}

func (w *watcher) setErr(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.err = err
	}
}

func (w *watcher) record(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[pod.UID] = append(w.seen[pod.UID], pod)
}

func (w *watcher) versions(name string) (out []*v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pods := range w.seen {
		if pods[0].Name == name {
			out = append(out, pods...)
		}
	}
	return out
}

// requireUndisturbed fails if any status went back in time. For pods that calm selects it also
// fails if a true condition became false, a container was restarted, or the pod was never ready.
func (w *watcher) requireUndisturbed(t *testing.T, calm func(*v1.Pod) bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NoError(t, w.err, "the watch must see all versions")
	watched := 0
	for _, versions := range w.seen {
		for i, pod := range versions {
			if i > 0 {
				if err := regression(versions[i-1], pod); err != nil {
					t.Errorf("pod %s, version %s: %v", pod.Name, pod.ResourceVersion, err)
				}
			}
		}
		if calm(versions[0]) {
			watched++
			if err := disturbance(versions); err != nil {
				t.Errorf("pod %s: %v", versions[0].Name, err)
			}
		}
	}
	require.NotZero(t, watched, "no undisturbed pod was observed")
}

var order = []v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed}

// regression returns an error if a part of a status is older than in the previous version.
func regression(before, now *v1.Pod) error {
	if was, is := before.Status.Phase, now.Status.Phase; slices.Index(order, is) < slices.Index(order, was) {
		return fmt.Errorf("phase %s after %s", is, was)
	}
	for _, c := range now.Status.Conditions {
		for _, b := range before.Status.Conditions {
			if c.Type == b.Type && c.LastTransitionTime.Before(&b.LastTransitionTime) {
				return fmt.Errorf("condition %s: transition at %s after a transition at %s", c.Type, c.LastTransitionTime, b.LastTransitionTime)
			}
		}
	}
	for _, b := range before.Status.ContainerStatuses {
		i := slices.IndexFunc(now.Status.ContainerStatuses, func(c v1.ContainerStatus) bool { return c.Name == b.Name })
		if i < 0 {
			return fmt.Errorf("container %s: no status", b.Name)
		}
		c := now.Status.ContainerStatuses[i]
		switch {
		case c.RestartCount < b.RestartCount:
			return fmt.Errorf("container %s: restart count %d after %d", c.Name, c.RestartCount, b.RestartCount)
		case c.RestartCount == b.RestartCount && b.State.Terminated != nil && c.State.Running != nil:
			return fmt.Errorf("container %s: runs after its end", c.Name)
		case b.State.Running != nil && c.State.Running != nil && c.State.Running.StartedAt.Before(&b.State.Running.StartedAt):
			return fmt.Errorf("container %s: started at %s after a start at %s", c.Name, c.State.Running.StartedAt, b.State.Running.StartedAt)
		case b.State.Terminated != nil && c.State.Terminated != nil && c.ContainerID == b.ContainerID && c.State.Terminated.ExitCode != b.State.Terminated.ExitCode:
			return fmt.Errorf("container %s: exit code %d after %d", c.Name, c.State.Terminated.ExitCode, b.State.Terminated.ExitCode)
		}
	}
	return nil
}

// disturbance returns an error if a pod changed that must not change.
func disturbance(versions []*v1.Pod) error {
	wasTrue := map[v1.PodConditionType]bool{}
	ids := map[string]string{}
	for _, pod := range versions {
		if pod.DeletionTimestamp != nil {
			return nil
		}
		for _, c := range pod.Status.Conditions {
			if wasTrue[c.Type] && c.Status != v1.ConditionTrue {
				return fmt.Errorf("%s changed from True to %s in version %s", c.Type, c.Status, pod.ResourceVersion)
			}
			wasTrue[c.Type] = c.Status == v1.ConditionTrue
		}
		for _, c := range pod.Status.ContainerStatuses {
			if id := ids[c.Name]; id != "" && id != c.ContainerID || c.RestartCount > 0 {
				return fmt.Errorf("container %s: %s after %s, %d restarts", c.Name, c.ContainerID, id, c.RestartCount)
			}
			ids[c.Name] = c.ContainerID
		}
	}
	if !wasTrue[v1.PodReady] {
		return fmt.Errorf("was never ready")
	}
	return nil
}
