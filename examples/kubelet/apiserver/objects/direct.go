package objects

import (
	"context"
	"fmt"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// PersistentVolumeClaim implements claims.Objects.
func (o *Objects) PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	claim, err := o.cfg.Client.PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	return found(claim, err)
}

// PersistentVolume implements claims.Objects.
func (o *Objects) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	pv, err := o.cfg.Client.PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	return found(pv, err)
}

// PublishContext implements csi.Attachments. It returns an error for an attachment that is
// incomplete or being deleted.
func (o *Objects) PublishContext(ctx context.Context, name string) (map[string]string, error) {
	a, err := found(o.cfg.Client.VolumeAttachments().Get(ctx, name, metav1.GetOptions{}))
	switch {
	case err != nil:
		return nil, fmt.Errorf("VolumeAttachment %s: %w", name, err)
	case a.DeletionTimestamp != nil:
		return nil, fmt.Errorf("VolumeAttachment %s: being deleted", name)
	case a.Status.AttachError != nil:
		return nil, fmt.Errorf("VolumeAttachment %s: attaching failed: %s", name, a.Status.AttachError.Message)
	case !a.Status.Attached:
		return nil, fmt.Errorf("VolumeAttachment %s: not attached yet", name)
	}
	return a.Status.AttachmentMetadata, nil
}

// found wraps a server's not-found error in volume.ErrNotFound.
func found[T any](obj *T, err error) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %w", volume.ErrNotFound, err)
	case err != nil:
		return nil, err
	}
	return obj, nil
}

// Token implements objects.Tokens. Tokens are cached until they need a replacement.
func (o *Objects) Token(ctx context.Context, r objects.TokenRequest) (objects.Token, error) {
	return o.tokens.Token(ctx, r)
}

type issuer struct{ client *apiserver.Client }

func (i issuer) Token(ctx context.Context, r objects.TokenRequest) (objects.Token, error) {
	begun := time.Now()
	reply, err := i.client.RequestToken(ctx, r.Namespace, r.ServiceAccount, &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		Audiences:         r.Audiences,
		ExpirationSeconds: &r.ExpirationSeconds,
		BoundObjectRef:    &authv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: r.PodName, UID: r.PodUID},
	}})
	if err != nil {
		return objects.Token{}, err
	}
	return objects.Token{Value: reply.Status.Token, Issued: begun, Expires: reply.Status.ExpirationTimestamp.Time}, nil
}
