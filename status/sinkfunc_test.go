package status

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A caller that does not use Receiver can write to a SinkFunc like to any other Sink.
func TestSinkFunc(t *testing.T) {
	var received []string
	failure := error(nil)
	var sink Sink = SinkFunc(func(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
		received = append(received, pod.Namespace+"/"+pod.Name+" "+string(pod.UID)+" "+string(s.Phase))
		return failure
	})
	ref := Ref{Namespace: "ns", Name: "a", UID: "1"}
	pod, err := sink.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, ref, Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	require.Empty(t, received)
	pod, err = sink.Patch(t.Context(), ref, &pod.Status, &v1.PodStatus{Phase: v1.PodRunning})
	require.NoError(t, err)
	require.Equal(t, v1.PodRunning, pod.Status.Phase)
	require.Equal(t, []string{"ns/a 1 Running"}, received)
	failure = errors.New("not now")
	_, err = sink.Patch(t.Context(), ref, &v1.PodStatus{}, &v1.PodStatus{})
	require.Equal(t, failure, err)
	require.NoError(t, sink.Delete(t.Context(), ref))
}
