package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/eviction"
)

// endingPod returns a pod of containers that exit with these codes when they are stopped: "0,137".
// "i:" and "s:" begin an init container and a sidecar. "once" exits with 0 by itself, and "missing"
// never starts.
func endingPod(name, codes string, policy v1.RestartPolicy) *v1.Pod {
	pod := bound(name)
	pod.Spec.RestartPolicy = policy
	for i, word := range strings.Split(codes, ",") {
		kind, code, cut := strings.Cut(word, ":")
		if !cut {
			code = word
		}
		c := podOf("", "", fmt.Sprintf("%s-%d", code, i)).Spec.Containers[0]
		if code == "missing" {
			c.EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "missing"}}}}
		}
		switch {
		case !cut:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			continue
		case kind == "s":
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

// endingProgram is the program of endingPod's containers.
func endingProgram(_ context.Context, p *fake.Process) (fake.Program, error) {
	name, _, _ := strings.Cut(p.Container.Name, "-")
	if name == "once" {
		return fake.Exit(0), nil
	}
	return func(ctx context.Context, p *fake.Process) int {
		select {
		case <-p.Signals():
		case <-ctx.Done():
		}
		return map[string]int{"0": 0, "1": 1, "137": 137}[name]
	}, nil
}

// A pod that ends by preemption, eviction or node shutdown has succeeded if its restart policy is
// Always and all exit codes are 0. Otherwise it has failed, with the reason. A pod past its deadline
// has failed. Upstream's kubelet differs in one case: with exit codes 0, pods of other restart
// policies succeed there, although their work may be incomplete.
func TestPhaseOfPodsThatTheNodeEnds(t *testing.T) {
	const (
		low       = "The node was low on memory"
		preempted = "Pod was preempted by Kubelet to accommodate a critical pod."
		down      = "Pod was terminated in response to imminent node shutdown."
		late      = "Pod was active on the node longer than the specified deadline"
		disrupted = " (True TerminationByKubelet: %s)"
	)
	evict := func(signal eviction.Signal) func(w *world, pod *v1.Pod) {
		return func(w *world, pod *v1.Pod) {
			go func() {
				_ = w.agent.lifecycle.evict(w.t.Context(), eviction.Victim{Pod: pod, Signal: signal, GraceSeconds: 2, Message: low, Time: time.Now()})
			}()
		}
	}
	for name, end := range map[string]struct {
		end               func(w *world, pod *v1.Pod)
		failed, condition string
	}{
		"preemption": {func(w *world, pod *v1.Pod) {
			w.agent.lifecycle.preempt(pod, []*v1.Pod{pod}, []admission.Shortage{{Name: "cpu"}})
		}, "Preempting: Preempted in order to admit critical pod", fmt.Sprintf(disrupted, preempted)},
		"eviction": {evict(eviction.MemoryAvailable), "Evicted: " + low, fmt.Sprintf(disrupted, low)},
		"limit":    {evict(eviction.EmptyDirLimit), "Evicted: " + low, ""},
		"shutdown": {func(w *world, pod *v1.Pod) {
			go func() { _ = w.agent.lifecycle.shutDown(w.t.Context(), pod, 2) }()
		}, "Terminated: " + down, fmt.Sprintf(disrupted, down)},
		"deadline": {nil, "DeadlineExceeded: " + late, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inClusterOf(t, fake.Config{Programs: endingProgram}, func(w *world) {
				w.startFor(5 * time.Second)
				codes := []string{"0", "1", "137", "i:0,0", "s:1,0", "missing", "once,0"}
				succeeds := []string{"0", "s:1,0", "once,0"}
				policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever}
				var pods []*v1.Pod
				for i, c := range codes {
					for _, policy := range policies {
						pod := endingPod(strings.ToLower(fmt.Sprint("p", i, policy)), c, policy)
						if end.end == nil {
							pod.Spec.ActiveDeadlineSeconds = new(int64(20))
						}
						w.put(pod)
						pods = append(pods, pod)
					}
				}
				w.Sleep(10 * time.Second)
				for _, pod := range pods {
					if end.end != nil {
						end.end(w, w.agent.lifecycle.desired.ByName("ns", pod.Name))
					}
				}
				w.Sleep(20 * time.Second)
				for i, c := range codes {
					for j, policy := range policies {
						want := "Failed " + end.failed + end.condition
						if policy == v1.RestartPolicyAlways && slices.Contains(succeeds, c) && end.end != nil {
							want = "Succeeded : " + end.condition
						}
						pod := w.at(pods[len(policies)*i+j].Name)
						require.Equal(t, want, w.ended(pod.Name), "%s %s", policy, c)
						for _, s := range pod.Status.ContainerStatuses {
							require.True(t, s.State.Terminated != nil || c == "i:0,0", "%s %s: %v", policy, c, s.State)
						}
					}
				}
			})
		})
	}
}
