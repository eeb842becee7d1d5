package objects

import (
	"context"
	"fmt"
	"sync"

	certv1 "k8s.io/api/certificates/v1"
	certv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// bundles reads the trust bundles in the version that the server serves.
type bundles struct {
	of   *Objects
	v1   *kindFeed[*certv1.ClusterTrustBundle, *certv1.ClusterTrustBundleList]
	beta *kindFeed[*certv1beta1.ClusterTrustBundle, *certv1beta1.ClusterTrustBundleList]

	mu      *sync.Mutex
	version *string // "" before the first request
}

type bundle struct {
	name, signer, pem string
	labels            map[string]string
}

func newBundles(o *Objects) bundles {
	changed := func(names []types.NamespacedName) {
		out := make([]volume.Object, 0, len(names))
		for _, name := range names {
			out = append(out, volume.Object{Kind: objects.KindTrustBundle, Name: name.Name})
		}
		o.cfg.OnChange(out)
	}
	return bundles{
		of: o, mu: &sync.Mutex{}, version: new(string),
		v1:   newKindFeed(o, o.cfg.Client.TrustBundles(), nil, changed),
		beta: newKindFeed(o, o.cfg.Client.TrustBundlesV1beta1(), nil, changed),
	}
}

func (b bundles) servedVersion(ctx context.Context) (string, error) {
	b.mu.Lock()
	known := *b.version
	b.mu.Unlock()
	if known != "" {
		return known, nil
	}
	version := "v1"
	_, err := b.of.cfg.Client.TrustBundles().List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		version = "v1beta1"
		_, err = b.of.cfg.Client.TrustBundlesV1beta1().List(ctx, metav1.ListOptions{Limit: 1})
	}
	if err != nil {
		return "", fmt.Errorf("cluster trust bundles: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	*b.version = version
	return version, nil
}

func (b bundles) all(ctx context.Context) (out []bundle, err error) {
	version, err := b.servedVersion(ctx)
	if err != nil {
		return nil, err
	}
	if version == "v1" {
		all, err := b.v1.all(ctx)
		for _, o := range all {
			out = append(out, bundle{o.Name, o.Spec.SignerName, o.Spec.TrustBundle, o.Labels})
		}
		return out, err
	}
	all, err := b.beta.all(ctx)
	for _, o := range all {
		out = append(out, bundle{o.Name, o.Spec.SignerName, o.Spec.TrustBundle, o.Labels})
	}
	return out, err
}

// TrustBundle implements objects.TrustBundles.
func (o *Objects) TrustBundle(ctx context.Context, name string) (string, error) {
	all, err := o.bundles.all(ctx)
	if err != nil {
		return "", err
	}
	for _, b := range all {
		if b.name == name {
			return b.pem, nil
		}
	}
	return "", objects.NotFound(volume.Object{Kind: objects.KindTrustBundle, Name: name})
}

// TrustBundlesOf implements objects.TrustBundles.
func (o *Objects) TrustBundlesOf(ctx context.Context, signer string, selector *metav1.LabelSelector) ([]string, error) {
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	all, err := o.bundles.all(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range all {
		if b.signer == signer && matches.Matches(labels.Set(b.labels)) {
			out = append(out, b.pem)
		}
	}
	return out, nil
}
