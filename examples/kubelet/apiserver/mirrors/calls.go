package mirrors

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// remove deletes a mirror without grace period. It does not delete other pods of that name.
func (m *Manager) remove(ctx context.Context, mirror *v1.Pod) error {
	none := int64(0)
	err := m.cfg.Client.Pods(mirror.Namespace).Delete(ctx, mirror.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &mirror.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it was deleted; another pod may have the name
	}
	return err
}

// statusTimeout bounds the delay of a static pod by the read of its mirror.
const statusTimeout = 2 * time.Second

// Status returns the status of a static pod's mirror, which another agent of this node wrote. It
// returns nil if there is no matching mirror or the server fails. It blocks for at most two
// seconds.
func (m *Manager) Status(ctx context.Context, pod *v1.Pod) *v1.PodStatus {
	if !podfacts.IsStatic(pod) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	mirror, err := m.cfg.Client.Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil || mirror.Spec.NodeName != pod.Spec.NodeName || mirror.Annotations[podfacts.ConfigMirror] != pod.Annotations[podfacts.ConfigHash] {
		return nil // the pod then starts without an earlier status
	}
	return &mirror.Status
}

// create creates a mirror. If a mirror exists that the source has not shown yet, create keeps it if
// it matches, and replaces it otherwise.
func (m *Manager) create(ctx context.Context, pod *v1.Pod, node *v1.Node) error {
	pods := m.cfg.Client.Pods(pod.Namespace)
	_, err := pods.Create(ctx, mirrorOf(pod, node), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch decide(pod, there, node) {
	case nothing:
		return nil
	case refuse:
		return fmt.Errorf("%w: %s", errForeignPod, there.UID)
	}
	if err := m.remove(ctx, there); err != nil {
		return err
	}
	_, err = pods.Create(ctx, mirrorOf(pod, node), metav1.CreateOptions{})
	return err
}
