package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	selectors "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/status"
)

// Sink writes statuses to an API server. Create it with NewSink. It is safe for concurrent use.
type Sink struct {
	client *apiserver.Client
	node   string
}

var _ status.Sink = Sink{}

// NewSink returns a Sink for the pods of a node.
func NewSink(client *apiserver.Client, nodeName string) (Sink, error) {
	return Sink{client, nodeName}, errors.Join(fields.Required("pods: NewSink's client", client), fields.Required("pods: NewSink's nodeName", nodeName))
}

// Get implements status.Sink. A server forbids a node to read a pod that is not bound to it, and
// also a missing pod. Get then looks for the pod in the list of the node's pods.
func (s Sink) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	pod, err := s.client.Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return s.find(ctx, ref, err)
	}
	return pod, asSinkError(err)
}

// find looks for a pod in the list of the node's pods, which a node may always read.
func (s Sink) find(ctx context.Context, ref status.Ref, refusal error) (*v1.Pod, error) {
	own := selectors.Set{"spec.nodeName": s.node, "metadata.name": ref.Name}.AsSelector().String()
	list, err := s.client.Pods(ref.Namespace).List(ctx, metav1.ListOptions{FieldSelector: own})
	switch {
	case err != nil:
		return nil, errors.Join(refusal, err)
	case len(list.Items) == 0:
		return nil, fmt.Errorf("%w on this node: %w", status.ErrNotFound, refusal)
	}
	return &list.Items[0], nil
}

// Patch implements status.Sink. It sends a strategic merge patch of the status subresource, with
// the UID and without a resource version.
func (s Sink) Patch(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	patch, err := statusPatch(ref.UID, old, new)
	if err != nil {
		return nil, err
	}
	pod, err := s.client.Pods(ref.Namespace).Patch(ctx, ref.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return pod, asSinkError(err)
}

// Delete implements status.Sink.
func (s Sink) Delete(ctx context.Context, ref status.Ref) error {
	return asSinkError(s.client.Pods(ref.Namespace).Delete(ctx, ref.Name, atOnce(ref.UID)))
}

// asSinkError wraps errors of a server in the errors of a Sink.
func asSinkError(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", status.ErrNotFound, err)
	case apierrors.IsConflict(err), isOfOtherUID(err):
		return fmt.Errorf("%w: %w", status.ErrConflict, err)
	}
	return err
}

// isOfOtherUID reports whether a patch was refused because the object has another UID. The server
// reports this as a change of an immutable field.
func isOfOtherUID(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// statusPatch returns the patch from old to new. It applies only to a pod with this UID.
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
		return nil, fmt.Errorf("comparing two statuses: %w", err)
	}
	return patch, nil
}

// atOnce returns options that delete an object without grace period, if it has this UID.
func atOnce(uid types.UID) metav1.DeleteOptions {
	none := int64(0)
	return metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &uid}}
}
