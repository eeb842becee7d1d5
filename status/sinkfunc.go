package status

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Receiver is an optional interface of a Sink that takes whole statuses instead of Get and Patch.
// Package writer passes it the newest status of each pod, including the data of other components.
// A static pod has its own UID, and an end is passed on at once. A status may be passed twice.
// Delete is never called. After an error, Receive is called later with the newest status.
//
// pod is the pod that the status was set with. Receive must change neither argument.
type Receiver interface {
	Receive(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error
}

// SinkFunc is a function that implements Receiver and Sink.
type SinkFunc func(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error

var (
	_ Sink     = SinkFunc(nil)
	_ Receiver = SinkFunc(nil)
)

// Receive calls f.
func (f SinkFunc) Receive(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error {
	return f(ctx, pod, s)
}

// Get returns a pod without a status, because a SinkFunc stores none.
func (f SinkFunc) Get(_ context.Context, ref Ref) (*v1.Pod, error) {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}, nil
}

// Patch calls f with a pod that has only a name and a UID.
func (f SinkFunc) Patch(ctx context.Context, ref Ref, _, new *v1.PodStatus) (*v1.Pod, error) {
	pod, _ := f.Get(ctx, ref)
	if err := f(ctx, pod, new); err != nil {
		return nil, err
	}
	pod.Status = *new
	return pod, nil
}

// Delete does nothing.
func (f SinkFunc) Delete(context.Context, Ref) error { return nil }
