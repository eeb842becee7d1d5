package podsyncer

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

var _ kubeletapi.Pods = (*Syncer)(nil)

// RunningContainer returns the running instance of a container. It implements kubeletapi.Pods with
// RunningSandbox and Log. A static pod is also found by the UID of its mirror.
func (s *Syncer) RunningContainer(_ context.Context, t kubeletapi.Target) (kubeletapi.Container, error) {
	none := kubeletapi.Container{}
	pod, err := s.find(t)
	if err != nil {
		return none, err
	}
	container, err := containerOf(pod, t.Container)
	if err != nil {
		return none, err
	}
	seen, err := s.observer.Get(pod.UID)
	if err != nil {
		return none, err
	}
	i := slices.IndexFunc(seen.Containers, func(c observed.Container) bool { return c.Name == t.Container && c.State == observed.StateRunning })
	if i < 0 {
		return none, absent("container %q of pod %q is not running", t.Container, pod.Namespace+"/"+pod.Name)
	}
	return kubeletapi.Container{ID: seen.Containers[i].ID.ID, TTY: container.TTY}, nil
}

// RunningSandbox returns the ID of a pod's newest sandbox, and an error if that is not ready.
func (s *Syncer) RunningSandbox(_ context.Context, t kubeletapi.Target) (string, error) {
	pod, err := s.find(t)
	if err != nil {
		return "", err
	}
	seen, err := s.observer.Get(pod.UID)
	if err != nil {
		return "", err
	}
	if len(seen.Sandboxes) == 0 || seen.Sandboxes[0].State != observed.SandboxReady {
		return "", absent("pod %q has no running sandbox", pod.Namespace+"/"+pod.Name)
	}
	return seen.Sandboxes[0].ID, nil
}

// Log returns the log of a container's newest instance, or of the instance before it if previous is
// true. The pod's status names the instances.
func (s *Syncer) Log(ctx context.Context, t kubeletapi.Target, previous bool) (logs.Log, error) {
	pod, err := s.find(t)
	if err != nil {
		return logs.Log{}, err
	}
	if _, err := containerOf(pod, t.Container); err != nil {
		return logs.Log{}, err
	}
	id, err := instances(s.newestStatus(pod), t.Container).Choose(previous)
	if err != nil {
		return logs.Log{}, &kubeletapi.Refusal{Code: http.StatusBadRequest, Message: fmt.Sprintf("container %q in pod %q: %v", t.Container, t.Pod, err)}
	}
	answer, err := s.cfg.Pods.Runtime.ContainerStatus(ctx, id, false)
	if cri.IsNotFound(err) {
		return logs.Log{}, absent("container %q in pod %q: instance %s was removed", t.Container, t.Pod, id)
	}
	return logs.Log{Path: answer.GetStatus().GetLogPath(), ContainerID: id}, err
}

// find returns the pod of a request. It also finds pods that only a worker has.
func (s *Syncer) find(t kubeletapi.Target) (*v1.Pod, error) {
	fits := func(pod *v1.Pod) bool {
		return pod != nil && pod.Namespace == t.Namespace && pod.Name == t.Pod && (t.UID == "" || s.desired.Translate(t.UID) == pod.UID)
	}
	if pod := s.desired.ByName(t.Namespace, t.Pod); fits(pod) {
		return pod, nil
	}
	for _, w := range s.workers.Pods() {
		if fits(w.Pod) && !w.ShouldBeFinished() {
			return w.Pod, nil
		}
	}
	return nil, absent("pod %q is not on this node", t.Namespace+"/"+t.Pod)
}

func absent(format string, args ...any) error {
	return &kubeletapi.Refusal{Code: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}
}

func containerOf(pod *v1.Pod, name string) (*v1.Container, error) {
	if c := podfacts.Container(pod, name); c != nil {
		return c, nil
	}
	return nil, absent("pod %[2]q has no container %[1]q", name, pod.Namespace+"/"+pod.Name)
}

// newestStatus returns the newest status of a pod, or the saved one before the first observation.
func (s *Syncer) newestStatus(pod *v1.Pod) *v1.PodStatus {
	if now := s.statuses.Get(pod.UID); now != nil {
		return now
	}
	record, err := s.cfg.Checkpoint.Load(pod.UID)
	if err != nil { // restoring the pod reports bad records
		return &v1.PodStatus{}
	}
	return &record.Status
}

// instances returns a container's instances from the pod's status.
func instances(status *v1.PodStatus, name string) logs.Instances {
	i := logs.Instances{Container: name}
	for _, c := range slices.Concat(status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses) {
		if c.Name != name {
			continue
		}
		switch {
		case c.State.Running != nil:
			i.State, i.ID = logs.StateRunning, bare(c.ContainerID)
		case c.State.Terminated != nil:
			i.State, i.ID = logs.StateTerminated, bare(c.State.Terminated.ContainerID)
		case c.State.Waiting != nil:
			i.State, i.Reason = logs.StateWaiting, c.State.Waiting.Reason
		}
		if last := c.LastTerminationState.Terminated; last != nil {
			i.LastID = bare(last.ContainerID)
		}
	}
	return i
}

// bare returns a container's ID without the runtime's prefix.
func bare(id string) string {
	_, after, _ := strings.Cut(id, "://")
	return after
}
