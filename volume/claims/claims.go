// Package claims resolves PersistentVolumeClaims of pods to volumes. Its Resolver implements
// manager.Claims for agents that can read PersistentVolumeClaims and PersistentVolumes.
//
//	resolver, err := claims.New(claims.Config{Objects: api})
//	...
//	manager, err := manager.New(manager.Config{Claims: resolver, ...})
//
// Each call reads both objects. It does not wait for the binding of a claim: the manager
// retries.
//
// An example that runs: ExampleResolver in example_test.go.
package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/volume"
)

// Objects reads claims and volumes. It should not use a cache, because a cache may not yet show
// a new binding. The error for a missing object wraps volume.ErrNotFound. Methods are called
// concurrently, and the Resolver does not change the returned objects.
type Objects interface {
	PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
}

// Config configures a Resolver. Objects is required.
type Config struct {
	Objects Objects
	// Translate converts a PersistentVolume of an in-tree kind to the CSI driver that serves it
	// now. It receives a copy. Optional: without it no volume is converted.
	Translate func(*v1.PersistentVolume) (*v1.PersistentVolume, error)
	// Node returns this node with its labels. Volumes whose node affinity excludes the node are
	// refused. Node must not block. It returns nil before the labels are available; volumes
	// with an affinity then fail. Optional: without it affinities are ignored.
	Node func() *v1.Node
}

// Resolver implements manager.Claims. Create it with New. It is safe for concurrent use.
type Resolver struct{ cfg Config }

// New returns a Resolver. It fails if Config.Objects is nil.
func New(cfg Config) (*Resolver, error) {
	if err := fields.Required("claims: Config.Objects", cfg.Objects); err != nil {
		return nil, err
	}
	return &Resolver{cfg}, nil
}

// Errors of claims that a pod cannot use, or cannot use yet.
var (
	// ErrNotBound is returned for a claim without a volume, or with a lost volume.
	ErrNotBound = errors.New("not bound")
	// ErrDeleted is returned for a claim whose deletion no finalizer prevents.
	ErrDeleted = errors.New("being deleted")
	// ErrNotOwned is returned if the claim of an ephemeral volume belongs to another owner than
	// the pod.
	ErrNotOwned = errors.New("not owned by the pod")
	// ErrOtherClaim is returned if the volume is bound to another claim, perhaps an earlier one
	// of the same name.
	ErrOtherClaim = errors.New("bound to another claim")
	// ErrOtherNode is returned if the volume cannot be used on this node.
	ErrOtherNode = errors.New("its node affinity excludes this node")
)

// pvcProtection is the finalizer that delays a claim's deletion while pods use it.
const pvcProtection = "kubernetes.io/pvc-protection"

// claimName returns the name of a volume's claim. For an ephemeral volume it is built from the names
// of pod and volume. It is empty for other kinds of volumes.
func claimName(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// Resolve implements manager.Claims. It does not compare the volume's mode with its use in
// containers; the manager does.
func (r *Resolver) Resolve(ctx context.Context, pod *v1.Pod, v v1.Volume) (*volume.Spec, error) {
	name := claimName(pod, &v)
	if name == "" {
		return nil, fmt.Errorf("volume %q names no claim", v.Name)
	}
	claim, err := r.claim(ctx, pod, &v, name)
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: %w", pod.Namespace, name, err)
	}
	pv, err := r.persistent(ctx, claim)
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: volume %s: %w", pod.Namespace, name, claim.Spec.VolumeName, err)
	}
	readOnly := v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
	return &volume.Spec{Name: pv.Name, Persistent: pv, ReadOnly: readOnly}, nil
}

func (r *Resolver) claim(ctx context.Context, pod *v1.Pod, v *v1.Volume, name string) (*v1.PersistentVolumeClaim, error) {
	claim, err := r.cfg.Objects.PersistentVolumeClaim(ctx, pod.Namespace, name)
	switch {
	case err != nil:
		return nil, err
	case claim == nil:
		return nil, volume.ErrNotFound
	case v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return nil, fmt.Errorf("%w %s/%s (%s), which its ephemeral volume requires", ErrNotOwned, pod.Namespace, pod.Name, pod.UID)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, pvcProtection):
		return nil, ErrDeleted
	case claim.Status.Phase != v1.ClaimBound:
		return nil, fmt.Errorf("%w: its phase is %q", ErrNotBound, claim.Status.Phase)
	case claim.Spec.VolumeName == "":
		return nil, fmt.Errorf("%w: spec.volumeName is empty", ErrNotBound)
	}
	return claim, nil
}

// persistent returns the volume of a claim if both refer to each other.
func (r *Resolver) persistent(ctx context.Context, claim *v1.PersistentVolumeClaim) (*v1.PersistentVolume, error) {
	pv, err := r.cfg.Objects.PersistentVolume(ctx, claim.Spec.VolumeName)
	switch {
	case err != nil:
		return nil, err
	case pv == nil:
		return nil, volume.ErrNotFound
	case pv.Spec.ClaimRef == nil:
		return nil, fmt.Errorf("%w: spec.claimRef is empty", ErrNotBound)
	case pv.Spec.ClaimRef.UID != claim.UID:
		return nil, fmt.Errorf("%w: UID %s", ErrOtherClaim, pv.Spec.ClaimRef.UID)
	}
	if err := r.checkNodeAffinity(pv); err != nil {
		return nil, err
	}
	if r.cfg.Translate == nil {
		return pv, nil
	}
	return r.cfg.Translate(pv.DeepCopy())
}

// checkNodeAffinity returns an error if the volume's node affinity excludes this node.
func (r *Resolver) checkNodeAffinity(pv *v1.PersistentVolume) error {
	if r.cfg.Node == nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	node := r.cfg.Node()
	if node == nil {
		return errors.New("spec.nodeAffinity: the labels of this node are not available yet")
	}
	terms, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	switch {
	case err != nil:
		return fmt.Errorf("spec.nodeAffinity.required: %w", err)
	case !terms.Match(node):
		return fmt.Errorf("%w, %s", ErrOtherNode, node.Name)
	}
	return nil
}
