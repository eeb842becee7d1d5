package pods

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/status"
)

// Sink writes statuses to an API server. Use NewSink. It is safe for concurrent use.
type Sink struct{ client *apiserver.Client }

var _ status.Sink = Sink{}

// NewSink returns a Sink.
func NewSink(client *apiserver.Client) (Sink, error) {
	return Sink{client}, required.Field("pods: NewSink's client", client)
}

// Get implements status.Sink.
func (s Sink) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	pod, err := s.client.Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return pod, classed(err)
}

// Patch implements status.Sink: a strategic merge patch of the subresource, which names
// the UID and no resource version.
func (s Sink) Patch(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	patch, err := statusPatch(ref.UID, old, new)
	if err != nil {
		return nil, err
	}
	pod, err := s.client.Pods(ref.Namespace).Patch(ctx, ref.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return pod, classed(err)
}

// Delete implements status.Sink.
func (s Sink) Delete(ctx context.Context, ref status.Ref) error {
	return classed(s.client.Pods(ref.Namespace).Delete(ctx, ref.Name, atOnce(ref.UID)))
}

// classed wraps what the errors of a server say in the words of a Sink.
func classed(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", status.ErrNotFound, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", status.ErrConflict, err)
	}
	return err
}

// statusPatch is what leads from old to new, for a pod of that UID only.
func statusPatch(uid types.UID, old, new *v1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(v1.Pod{Status: *old})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: *new})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("the difference of two statuses: %w", err)
	}
	return patch, nil
}

// atOnce removes an object without grace, if it has a UID.
func atOnce(uid types.UID) metav1.DeleteOptions {
	none := int64(0)
	return metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &uid}}
}
