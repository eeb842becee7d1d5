package certificates

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/cert"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/run"
)

type requester struct {
	requests apiserver.Resource[*certv1.CertificateSigningRequest, *certv1.CertificateSigningRequestList]
	signer   string
	onWait   func(request string) // called before a wait
	log      *slog.Logger
}

// watchSeconds is the timeout of one watch of a request.
const watchSeconds = 300

// obtain posts a request for a key, or finds the existing one, and waits for the certificate until
// ctx is done.
func (a requester) obtain(ctx context.Context, key crypto.Signer, template *x509.CertificateRequest) (certPEM []byte, err error) {
	own, err := a.newRequest(key, template)
	if err != nil {
		return nil, err
	}
	there, err := a.requests.Create(ctx, own, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // an earlier response may be lost
		if there, err = a.requests.Get(ctx, own.Name, metav1.GetOptions{}); err == nil {
			err = sameRequest(there, own)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("certificate signing request %s: %w", own.Name, err)
	}
	a.onWait(own.Name)
	a.log.Info("waiting for a certificate", "request", own.Name, "signer", a.signer)
	if certPEM, err = a.wait(ctx, own.Name, there.UID); err != nil {
		return nil, fmt.Errorf("certificate signing request %s: %w", own.Name, err)
	}
	return certPEM, nil
}

func (a requester) newRequest(key crypto.Signer, template *x509.CertificateRequest) (*certv1.CertificateSigningRequest, error) {
	text, err := cert.MakeCSRFromTemplate(key, template)
	if err != nil {
		return nil, fmt.Errorf("certificate signing request: %w", err)
	}
	uses := usages(a.signer, key.Public())
	name, err := requestName(key.Public(), template.Subject, uses)
	if err != nil {
		return nil, fmt.Errorf("certificate signing request: %w", err)
	}
	return &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certv1.CertificateSigningRequestSpec{Request: text, SignerName: a.signer, Usages: uses},
	}, nil
}

// wait waits for the outcome of a request. It retries while the server is unreachable.
func (a requester) wait(ctx context.Context, name string, uid types.UID) ([]byte, error) {
	for last := ""; ; {
		began := time.Now()
		now, err := a.requests.Get(ctx, name, metav1.GetOptions{})
		var pem []byte
		switch {
		case apierrors.IsNotFound(err):
			return nil, ErrGone
		case err == nil:
			if pem, err = outcome(now, uid); err != nil {
				return nil, err
			}
			if pem == nil {
				pem, err = a.watch(ctx, now)
			}
		case errors.Is(err, apiserver.ErrExpired):
			return nil, err // only another credential can continue
		case ctx.Err() != nil:
			return nil, run.EndOf(ctx)
		default:
			if text := err.Error(); text != last {
				last = text
				a.log.Warn("cannot read the certificate signing request; trying again", "request", name, "err", err)
			}
			err = nil
		}
		if pem != nil || err != nil {
			return pem, err
		}
		// A long watch needs no pause after it.
		if !run.Sleep(ctx, wait.Jitter(2*time.Second, 0.5)-time.Since(began)) {
			return nil, run.EndOf(ctx)
		}
	}
}

// watch waits for the outcome of a request. It returns nil, nil if the watch ends first.
func (a requester) watch(ctx context.Context, now *certv1.CertificateSigningRequest) ([]byte, error) {
	seconds := int64(watchSeconds)
	w, err := a.requests.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", now.Name).String(),
		ResourceVersion: now.ResourceVersion, TimeoutSeconds: &seconds,
	})
	if err != nil {
		return nil, nil // the caller reads the request again
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		r, ok := event.Object.(*certv1.CertificateSigningRequest)
		switch {
		case !ok:
			return nil, nil
		case event.Type == watch.Deleted:
			return nil, ErrGone
		}
		if pem, err := outcome(r, now.UID); pem != nil || err != nil {
			return pem, err
		}
	}
	return nil, nil
}
