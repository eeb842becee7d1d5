// Package claims finds the volumes that pods claim: it is the manager.Claims of an agent
// that can read PersistentVolumeClaims and PersistentVolumes.
//
//	resolver, err := claims.New(claims.Config{Objects: api})
//	...
//	manager, err := manager.New(manager.Config{Claims: resolver, ...})
//
// It reads both objects each time and never waits for a claim to be bound: the manager
// tries again.
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

// Objects gets claims and volumes. It should not answer from a cache: a claim that was
// bound a moment ago is bound. An error that wraps volume.ErrNotFound says that there
// is none. Methods are called concurrently; what they return is not changed.
type Objects interface {
	PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
}

// Config configures a Resolver. Objects is required.
type Config struct {
	Objects Objects
	// Translate makes of a PersistentVolume of a kind that is served by a CSI driver now
	// one of that driver. It gets a copy. Nil means that none is.
	Translate func(*v1.PersistentVolume) (*v1.PersistentVolume, error)
	// Node is this node with its labels: volumes whose node affinity excludes it are
	// refused. It answers from memory, and nil while that is not known, which is an error
	// of volumes with an affinity. Nil means that affinities are not looked at.
	Node func() *v1.Node
}

// Resolver is a manager.Claims. Use New. It is safe for concurrent use.
type Resolver struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Resolver, error) {
	if err := fields.Required("claims: Config.Objects", cfg.Objects); err != nil {
		return nil, err
	}
	return &Resolver{cfg}, nil
}

// The errors of claims that cannot be used, or not yet.
var (
	// ErrNotBound: the claim has no volume yet, or has lost it.
	ErrNotBound = errors.New("not bound")
	// ErrDeleted: the claim is being deleted, and nothing keeps it from that.
	ErrDeleted = errors.New("being deleted")
	// ErrNotOwned: a claim of the name that an ephemeral volume's has is not the pod's.
	ErrNotOwned = errors.New("not owned by the pod")
	// ErrOtherClaim: the volume is bound to another claim, maybe one of the same name
	// before this one.
	ErrOtherClaim = errors.New("bound to another claim")
	// ErrOtherNode: the volume cannot be used on this node.
	ErrOtherNode = errors.New("its node affinity excludes this node")
)

// pvcProtection keeps a claim from being deleted while pods use it.
const pvcProtection = "kubernetes.io/pvc-protection"

// Name is the name of the claim of a volume of a pod: its own, or for an ephemeral
// volume that made from the names of pod and volume. It is empty for others.
func Name(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// Resolve implements manager.Claims. It does not compare the volume's mode with how
// containers use it: the manager does.
func (r *Resolver) Resolve(ctx context.Context, pod *v1.Pod, v v1.Volume) (*volume.Spec, error) {
	name := Name(pod, &v)
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

// claim gets the claim of a volume, if a pod may use it.
func (r *Resolver) claim(ctx context.Context, pod *v1.Pod, v *v1.Volume, name string) (*v1.PersistentVolumeClaim, error) {
	claim, err := r.cfg.Objects.PersistentVolumeClaim(ctx, pod.Namespace, name)
	switch {
	case err != nil:
		return nil, err
	case claim == nil:
		return nil, volume.ErrNotFound
	case v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return nil, fmt.Errorf("%w %s/%s (%s), as that of an ephemeral volume has to be", ErrNotOwned, pod.Namespace, pod.Name, pod.UID)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, pvcProtection):
		return nil, ErrDeleted
	case claim.Status.Phase != v1.ClaimBound:
		return nil, fmt.Errorf("%w: its phase is %q", ErrNotBound, claim.Status.Phase)
	case claim.Spec.VolumeName == "":
		return nil, fmt.Errorf("%w: spec.volumeName is empty", ErrNotBound)
	}
	return claim, nil
}

// persistent gets the volume of a claim, if it is the claim's.
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
		return nil, fmt.Errorf("%w: that with the UID %s", ErrOtherClaim, pv.Spec.ClaimRef.UID)
	}
	if err := r.mayBeHere(pv); err != nil {
		return nil, err
	}
	if r.cfg.Translate == nil {
		return pv, nil
	}
	return r.cfg.Translate(pv.DeepCopy())
}

// mayBeHere refuses a volume that is of other nodes only.
func (r *Resolver) mayBeHere(pv *v1.PersistentVolume) error {
	if r.cfg.Node == nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	node := r.cfg.Node()
	if node == nil {
		return errors.New("spec.nodeAffinity: the labels of this node are not known yet")
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
