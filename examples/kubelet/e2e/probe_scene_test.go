package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// effectTimeout is the time limit for effects that take a few seconds. It costs time only in a
// failing test.
const effectTimeout = time.Minute

// everySecond returns a probe with threshold 1 and a timeout for loaded machines.
func everySecond(h v1.ProbeHandler) *v1.Probe {
	return &v1.Probe{ProbeHandler: h, PeriodSeconds: 1, TimeoutSeconds: 30, FailureThreshold: 1}
}

func execProbe(command ...string) *v1.Probe {
	return everySecond(v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}})
}

// mountSteps mounts a folder of the host at /steps in all containers of a pod.
func mountSteps(pod *v1.Pod, folder string) *v1.Pod {
	pod.Spec.Volumes = []v1.Volume{{Name: "steps", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: folder}}}}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = []v1.VolumeMount{{Name: "steps", MountPath: "/steps"}}
		}
	}
	return pod
}

// statusOf returns the status of a container of a pod, or nil.
func statusOf(p *v1.Pod, container string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}

func condition(p *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

// conditions formats a pod's status with its conditions.
func conditions(p *v1.Pod) string {
	var b strings.Builder
	b.WriteString(brief(p))
	for _, c := range p.Status.Conditions {
		fmt.Fprintf(&b, "; %s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

// isReady returns nil if both readiness conditions of a pod are True.
func isReady(p *v1.Pod) error {
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		if condition(p, kind).Status != v1.ConditionTrue {
			return fmt.Errorf("not ready: %s", conditions(p))
		}
	}
	return nil
}

// isUnready returns nil if both readiness conditions are False because of the container.
func isUnready(p *v1.Pod, container string) error {
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		c := condition(p, kind)
		if c.Status != v1.ConditionFalse || c.Reason != "ContainersNotReady" || !strings.Contains(c.Message, container) {
			return fmt.Errorf("not unready because of %s: %s", container, conditions(p))
		}
	}
	return nil
}

// becomes waits until cond returns nil for a pod, and returns the pod.
func (s *scene) becomes(t testing.TB, name, goal string, cond func(*v1.Pod) error) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	wait(t, effectTimeout, name+" "+goal, func() (err error) {
		if pod, err = s.pod(name); err == nil {
			err = cond(pod)
		}
		return err
	})
	return pod
}

func (s *scene) becomesReady(t testing.TB, name string) *v1.Pod {
	t.Helper()
	return s.becomes(t, name, "becomes ready", isReady)
}

func (s *scene) becomesUnready(t testing.TB, name, container string) {
	t.Helper()
	s.becomes(t, name, "becomes unready", func(p *v1.Pod) error { return isUnready(p, container) })
}

// events returns the log lines of an event of the pod.
func (s *scene) events(t testing.TB, pod, reason string, texts ...string) []string {
	return s.logLines(t, append(texts, "reason="+reason+" ", "pod=default/"+pod+"-"+s.node)...)
}

func (s *scene) waitEvent(t testing.TB, pod, reason string, texts ...string) {
	t.Helper()
	wait(t, effectTimeout, pod+" has an event "+reason, func() error {
		if len(s.events(t, pod, reason, texts...)) == 0 {
			return fmt.Errorf("no event with %q among %q", texts, s.events(t, pod, reason))
		}
		return nil
	})
}
