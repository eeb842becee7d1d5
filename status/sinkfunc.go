package status

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Receiver is what a Sink is as well that wants each status as it is, instead of
// being asked what it has and told the difference. Package writer hands it the
// newest status of each pod, whole: with what others own, a static pod under its
// own UID, an end at once. It may be handed the same again. It is never asked to
// remove a pod. After an error the newest status is handed over later.
//
// pod is the one that the status was set with. Neither may be changed.
type Receiver interface {
	Receive(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error
}

// SinkFunc is a Sink for those who only want to be told: a Receiver that is a
// function.
type SinkFunc func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error

var (
	_ Sink     = SinkFunc(nil)
	_ Receiver = SinkFunc(nil)
)

// Receive calls f.
func (f SinkFunc) Receive(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
	return f(ctx, pod, s)
}

// Get returns a pod without a status: nobody knows what f has made of the last one.
func (f SinkFunc) Get(_ context.Context, ref Ref) (*v1.Pod, error) {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}, nil
}

// Patch calls f with a pod of which only the name and the UID are known.
func (f SinkFunc) Patch(ctx context.Context, ref Ref, _, new *v1.PodStatus) (*v1.Pod, error) {
	pod, _ := f.Get(ctx, ref)
	if err := f(ctx, pod, new); err != nil {
		return nil, err
	}
	pod.Status = *new
	return pod, nil
}

// Delete does nothing: f is told of statuses only.
func (f SinkFunc) Delete(context.Context, Ref) error { return nil }
