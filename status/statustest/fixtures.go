package statustest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/difference"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
)

const namespace = "statustest"

// fixture is the environment of a rule. It starts with one pod with the status first.
type fixture struct {
	Subject
	ctx context.Context
	ref status.Ref
	// made are the created pods.
	made map[status.Ref]*v1.Pod
}

func (r rule) run(ctx context.Context, h Subject) (err error) {
	s := newFixture(ctx, h)
	if s.ref, err = s.create("pod", "uid-pod"); err != nil {
		return err
	}
	return r.check(s)
}

func newFixture(ctx context.Context, h Subject) *fixture {
	return &fixture{Subject: h, ctx: ctx, made: map[status.Ref]*v1.Pod{}}
}

func (s *fixture) create(name string, uid types.UID) (status.Ref, error) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
		Spec:       v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "app", Image: "image"}}},
		Status:     *first(),
	}
	if s.Create != nil {
		pod = s.Create(pod)
	}
	if pod == nil || pod.UID == "" || pod.UID == s.ref.UID {
		return status.Ref{}, errors.New("statustest: Subject.Create returned no pod, or a pod without a new UID")
	}
	ref := status.Ref{Namespace: namespace, Name: name, UID: pod.UID}
	s.made[ref] = pod
	if !receives(s.Subject) {
		return ref, nil
	}
	unchanged := pod.DeepCopy()
	err := s.write(s.ctx, ref, nil, first())
	s.made[ref] = unchanged
	return ref, err
}

func (s *fixture) recreate() (status.Ref, error) {
	s.Remove(s.ref.Namespace, s.ref.Name)
	return s.create(s.ref.Name, s.ref.UID+"-2")
}

func (s *fixture) pod() *v1.Pod { return s.Pod(s.ref.Namespace, s.ref.Name) }

func (s *fixture) edit(change func(*v1.PodStatus)) { s.Change(s.ref.Namespace, s.ref.Name, change) }

// at returns a time with a precision that every sink can store.
func at(minutes int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 2, 3, minutes, 0, 0, time.UTC))
}

func is(t v1.PodConditionType, value v1.ConditionStatus, minutes int) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: value, LastTransitionTime: at(minutes)}
}

// first is the status of a pending pod, second of the same pod while it runs, third after its
// end.
func first() *v1.PodStatus {
	return &v1.PodStatus{
		Phase: v1.PodPending, QOSClass: v1.PodQOSBurstable,
		Conditions: []v1.PodCondition{is(v1.PodScheduled, v1.ConditionTrue, 0), is(v1.PodReady, v1.ConditionFalse, 0)},
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", Image: "image", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		}},
	}
}

func second() *v1.PodStatus {
	s := first()
	s.ObservedGeneration, s.Phase, s.StartTime = 2, v1.PodRunning, new(at(1))
	s.HostIP, s.HostIPs = "192.0.2.1", []v1.HostIP{{IP: "192.0.2.1"}}
	s.PodIP, s.PodIPs = "10.0.0.1", []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	s.Conditions = []v1.PodCondition{
		is(v1.PodReadyToStartContainers, v1.ConditionTrue, 1), is(v1.PodScheduled, v1.ConditionTrue, 0), is(v1.PodReady, v1.ConditionTrue, 1),
	}
	s.InitContainerStatuses = []v1.ContainerStatus{{
		Name: "init", Image: "image", Ready: true,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", StartedAt: at(1), FinishedAt: at(1)}},
	}}
	s.ContainerStatuses = []v1.ContainerStatus{{
		Name: "app", Image: "image", ImageID: "image@sha256:1", ContainerID: "fake://2", Ready: true, Started: new(true), RestartCount: 1,
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(2)}},
		LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 3, Reason: "Error", Message: "boom", ContainerID: "fake://1", StartedAt: at(1), FinishedAt: at(2),
		}},
	}}
	return s
}

func third() *v1.PodStatus {
	s := second()
	s.Phase, s.Reason, s.Message = v1.PodFailed, "Evicted", "no room"
	s.Conditions = []v1.PodCondition{is(v1.PodScheduled, v1.ConditionTrue, 0), is(v1.PodReady, v1.ConditionFalse, 5), is(v1.DisruptionTarget, v1.ConditionTrue, 5)}
	s.PodIP, s.PodIPs = "10.0.0.2", []v1.PodIP{{IP: "10.0.0.2"}}
	c := &s.ContainerStatuses[0]
	c.Ready, c.Started = false, new(false)
	c.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", ContainerID: "fake://2", StartedAt: at(2), FinishedAt: at(5)}}
	return s
}

// shows returns an error if a pod's status differs from want in the node agent's part.
func shows(pod *v1.Pod, want *v1.PodStatus) error {
	switch {
	case pod == nil:
		return errors.New("the pod does not exist")
	case podstatus.Equal(&pod.Status, want) && sameTransitions(pod.Status.Conditions, want.Conditions):
		return nil
	}
	return fmt.Errorf("the status differs:\n%s", difference.Of(podstatus.Own(&pod.Status), podstatus.Own(want)))
}

func sameTransitions(got, want []v1.PodCondition) bool {
	return !slices.ContainsFunc(want, func(c v1.PodCondition) bool {
		return !podfacts.Condition(got, c.Type).LastTransitionTime.Time.Equal(c.LastTransitionTime.Time)
	})
}

// named returns the identity of a pod for messages.
func named(pod *v1.Pod) string {
	if pod == nil {
		return "no pod"
	}
	return status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}.String()
}
