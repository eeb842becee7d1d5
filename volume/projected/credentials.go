package projected

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// Validity of tokens in seconds.
const (
	defaultExpiration = 3600
	minExpiration     = 600
)

// tokenFile returns the file with a token of the pod's service account, and the time of the
// token's replacement.
func tokenFile(ctx context.Context, from objects.Tokens, m volume.Mount, p *v1.ServiceAccountTokenProjection, defaultMode *int32) (payload, time.Time, error) {
	file, err := private(m, p.Path, defaultMode)
	if err != nil {
		return nil, time.Time{}, err
	}
	if from == nil {
		return nil, time.Time{}, errors.New("this agent has no tokens of service accounts")
	}
	r := objects.TokenRequest{
		Namespace: m.Pod.Namespace, ServiceAccount: objects.Account(m.Pod.Spec.ServiceAccountName),
		ExpirationSeconds: defaultExpiration, PodName: m.Pod.Name, PodUID: m.Pod.UID,
	}
	if p.ExpirationSeconds != nil {
		r.ExpirationSeconds = *p.ExpirationSeconds
	}
	if r.ExpirationSeconds < minExpiration {
		return nil, time.Time{}, volume.AtField("expirationSeconds", fmt.Errorf("%d is less than %d", r.ExpirationSeconds, minExpiration))
	}
	if p.Audience != "" {
		r.Audiences = []string{p.Audience}
	}
	token, err := from.Token(ctx, r)
	if err != nil {
		return nil, time.Time{}, err
	}
	file.Data = []byte(token.Value)
	return payload{p.Path: file}, token.RefreshAt, nil
}

// trustBundleFile returns the file with certificates: PEM blocks without duplicates, in an
// order that depends only on their content.
func trustBundleFile(ctx context.Context, from objects.TrustBundles, m volume.Mount, p *v1.ClusterTrustBundleProjection, defaultMode *int32) (payload, error) {
	file, err := private(m, p.Path, defaultMode)
	if err != nil {
		return nil, err
	}
	texts, err := bundles(ctx, from, p)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, text := range texts {
		der, err := objects.Certificates(text)
		if err != nil {
			return nil, fmt.Errorf("trust bundle: %w", err)
		}
		all = append(all, der...)
	}
	slices.Sort(all)
	for _, der := range slices.Compact(all) {
		file.Data = append(file.Data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return payload{p.Path: file}, nil
}

// bundles returns the texts of the selected bundles. An empty selection is an error unless the
// source is optional.
func bundles(ctx context.Context, from objects.TrustBundles, p *v1.ClusterTrustBundleProjection) ([]string, error) {
	switch {
	case from == nil:
		return nil, errors.New("this agent has no trust bundles")
	case (p.Name == nil) == (p.SignerName == nil):
		return nil, errors.New("exactly one of name and signerName must be set")
	case p.Name != nil:
		text, err := from.TrustBundle(ctx, *p.Name)
		if isTrue(p.Optional) && objects.IsNotFound(err) {
			return nil, nil
		}
		return []string{text}, err
	}
	texts, err := from.TrustBundlesOf(ctx, *p.SignerName, p.LabelSelector)
	if err == nil && len(texts) == 0 && !isTrue(p.Optional) {
		err = volume.AtField("signerName", fmt.Errorf("no trust bundle of signer %.80q matches: %w", *p.SignerName, volume.ErrNotFound))
	}
	return texts, err
}

// private returns a file that only the pod's user and group may read. Without either, the file
// has the volume's mode.
func private(m volume.Mount, path string, defaultMode *int32) (f payloadFile, err error) {
	if err := checkPath(path); err != nil {
		return f, volume.AtField("path", err)
	}
	if f.Mode, err = modeOf("defaultMode", defaultMode); err != nil {
		return f, err
	}
	f.Owner = m.RunAsUser
	if m.RunAsUser != nil || m.FSGroup != nil {
		f.Mode = 0o600
	}
	return f, nil
}
