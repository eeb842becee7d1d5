package status

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Receiver is an optional interface of a Sink that takes whole statuses instead of Get and Patch.
// Package writer passes it the newest status of each pod, including the data of other components.
// A static pod has its own UID, and an end is passed on at once. A status may be passed twice.
// Delete is never called; see DeletionReceiver. After an error, Receive is called later with the newest status.
//
// Receive returns nil once its destination has the status. After its return, also with an error, it
// writes no more, because a newer status may follow. Calls for one pod never overlap, calls for
// several pods may. Statuses between two calls are skipped. Package statustest tests Receivers.
//
// pod is the pod that the status was set with. Receive must change neither argument.
type Receiver interface {
	Receive(ctx context.Context, pod *v1.Pod, s *v1.PodStatus) error
}

// DeletionReceiver is an optional interface of a Receiver that also receives the end of each pod.
// Package writer calls ReceiveDeletion once it drops a pod: after Prune and the last status, after
// Forget, or after another sink has removed the pod. Stopping the agent deletes no pod.
//
// Calls for one UID never overlap. Their order is: statuses of a pod, its deletion, and statuses of
// the next pod with the UID, which wait for the deletion. After an error the deletion is repeated;
// after a success it is not. A pod that returns while its last status is still refused has no
// deletion.
//
// After a crash a deletion may be repeated, so the deletion of an unknown pod is no error. It may
// also be missing: see writer.Writer.Restore.
type DeletionReceiver interface {
	Receiver
	// ReceiveDeletion receives the last version of a pod, and must not change it.
	ReceiveDeletion(ctx context.Context, pod *v1.Pod) error
}

// SinkFunc is a function that implements Receiver and Sink. A struct that embeds it can add
// ReceiveDeletion, as ExampleWriter_deletion of package writer does.
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
