package certificates

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/keyutil"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fields"
)

// RotatorConfig configures a Rotator. Client, Signer, Store and Template are required.
type RotatorConfig struct {
	Client *apiserver.Client
	// Signer is certv1.KubeAPIServerClientKubeletSignerName or certv1.KubeletServingSignerName.
	Signer string
	// Store keeps the certificate and its key.
	Store Store
	// Template returns the certificate request, or nil before the node's addresses are available.
	// It must not block and is called concurrently. Call Wake after it has changed.
	Template func() *x509.CertificateRequest
	// Bootstrap is the path of a kubeconfig whose user may request client certificates
	// (--bootstrap-kubeconfig). While Client has no usable credential (Client.Err), the Rotator uses it
	// to request a certificate, and writes Client's kubeconfig, which then names the Store. Optional.
	Bootstrap string
	// BootstrapOnly disables renewals before the end of a certificate (rotateCertificates: false).
	BootstrapOnly bool
	// OnRotated is called with the age of a replaced certificate. Optional.
	OnRotated func(age time.Duration)
	// OnError is called after each request that yielded no certificate. Optional.
	OnError func(error)
	// Logger receives the log. Default: discard.
	Logger *slog.Logger
}

// Rotator requests certificates from the API server and renews them in time. Use NewRotator. It is
// safe for concurrent use.
type Rotator struct {
	cfg     RotatorConfig
	current atomic.Pointer[tls.Certificate]
	wake    chan struct{}
	ran     atomic.Bool

	mu sync.Mutex
	// requested is the template of the newest request. cancel ends the wait for it.
	requested *x509.CertificateRequest
	cancel    context.CancelCauseFunc
	// awaited is the name of a request without an outcome, since its time.
	awaited string
	since   time.Time
	err     error
}

var (
	// errChanged ends the wait for a certificate whose template has changed.
	errChanged = errors.New("the node's addresses or names have changed")
	// errTimeout ends the wait for a certificate.
	errTimeout = fmt.Errorf("not approved within %s", approvalTimeout)
)

const (
	// approvalTimeout bounds the wait for the outcome of a request.
	approvalTimeout = time.Hour
	// Pauses between requests grow up to pauseMax after failures, up to pauseLost if the node has
	// lost its credential, and up to pauseRefused after refusals.
	pauseMin, pauseMax, pauseLost, pauseRefused = 2 * time.Second, time.Minute, 10 * time.Second, 10 * time.Minute
	// checkPeriod is the period of checks whether a request is due. The clock may be set, and the
	// client may lose its credential.
	checkPeriod = time.Minute
	// farFuture is later than the end of any certificate.
	farFuture = 100 * 365 * 24 * time.Hour
)

// NewRotator checks the configuration and reads the store. An unusable file in the store is logged
// and ignored. NewRotator fails if Client has no kubeconfig and Bootstrap is not usable.
func NewRotator(cfg RotatorConfig) (*Rotator, error) {
	f := fields.Of("certificates: RotatorConfig")
	f.Required("Client", cfg.Client)
	f.Required("Store.Dir", cfg.Store.Dir)
	f.Required("Store.Name", cfg.Store.Name)
	f.Required("Template", cfg.Template)
	if cfg.Signer != certv1.KubeAPIServerClientKubeletSignerName && cfg.Signer != certv1.KubeletServingSignerName {
		f.Refuse("Signer %q is not a signer of kubelet certificates", cfg.Signer)
	}
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	r := &Rotator{cfg: cfg, wake: make(chan struct{}, 1)}
	if err := r.load(); err != nil {
		cfg.Logger.Warn("stored certificate not usable; requesting a new one", "err", err)
	}
	return r, r.checkBootstrap()
}

// load reads the store. A missing file is no error.
func (r *Rotator) load() error {
	stored, err := r.cfg.Store.Current()
	if err == nil {
		r.current.Store(stored)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Current returns the certificate in use, or nil if it is missing or has expired.
func (r *Rotator) Current() *tls.Certificate {
	c := r.current.Load()
	if c == nil || expired(c, time.Now()) {
		return nil
	}
	return c
}

// Err returns the error of the last request, or nil if it succeeded.
func (r *Rotator) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Awaited returns the name of the request that waits for its approval and signature, and the start
// of the wait. It returns "" without such a request.
func (r *Rotator) Awaited() (request string, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.awaited, r.since
}

// await records a request that waits for its outcome.
func (r *Rotator) await(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaited, r.since = request, time.Now()
}

// Wake checks the template for changes. Call it after a possible change. It never blocks.
func (r *Rotator) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reflect.DeepEqual(r.requested, r.cfg.Template()) {
		return
	}
	if r.cancel != nil {
		r.cancel(errChanged)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run requests certificates until ctx is done.
func (r *Rotator) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return ErrAlreadyRun
	}
	share := rand.Float64()
	for last := (backOff{}); ; {
		why, at := r.nextRequest(share)
		if pause := time.Until(at); pause > 0 {
			last = backOff{}
			if !r.sleep(ctx, min(pause, checkPeriod)) {
				return nil
			}
			continue
		}
		r.cfg.Logger.Info("requesting a certificate", "signer", r.cfg.Signer, "because", why)
		err := r.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errChanged):
			continue
		}
		r.note(err)
		pause := pauseMin // also after a certificate that is due for renewal at once
		if err == nil {
			share = rand.Float64()
		} else {
			pause = min(wait.Jitter(last.pause(err, r.lost() != nil), 0.1), r.untilLost())
		}
		if !r.sleep(ctx, pause) {
			return nil
		}
	}
}

func (r *Rotator) nextRequest(share float64) (why string, at time.Time) {
	if r.Current() == nil {
		_ = r.load() // another program may have written it; NewRotator has logged an unusable one
	}
	template, c, now := r.cfg.Template(), r.Current(), time.Now()
	never := now.Add(farFuture)
	if template == nil {
		return "", never
	}
	if err := r.lost(); err != nil {
		return err.Error(), now
	}
	switch {
	case r.cfg.BootstrapOnly:
		if end := r.cfg.Client.Expires(); !end.IsZero() {
			return "", end
		}
		return "", never
	case c == nil:
		return "there is no valid certificate", now
	}
	if missing := lacks(c.Leaf, template); missing != "" {
		return "it lacks " + missing, now
	}
	return "it expires soon", rotateAt(c.Leaf, share)
}

// sleep waits until d has passed or Wake is called. It reports false if ctx is done.
func (r *Rotator) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil
}

// backOff counts failed requests and refused ones, each for its own pause: a refusal after a long
// outage is repeated soon.
type backOff struct{ failures, refusals int }

func (b *backOff) pause(err error, lost bool) time.Duration {
	n, most := &b.failures, pauseMax
	if lost {
		most = pauseLost
	}
	if errors.Is(err, ErrDenied) || errors.Is(err, ErrFailed) {
		n, most = &b.refusals, pauseRefused
	}
	defer func() { *n++ }()
	return min(pauseMin<<min(*n, 20), most)
}

// renew requests a certificate, and stores it.
func (r *Rotator) renew(ctx context.Context) error {
	if r.lost() != nil {
		return r.bootstrap(ctx)
	}
	if err := r.cfg.Client.Err(); err != nil {
		return err
	}
	return r.request(ctx, r.cfg.Client)
}

// request requests a certificate with a client, and stores it. Its key is stored first, so that a
// later attempt finds the same request, and no request is posted if the store cannot be written.
func (r *Rotator) request(ctx context.Context, client *apiserver.Client) error {
	ctx, stop := context.WithTimeoutCause(ctx, approvalTimeout, errTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	template := r.cfg.Template()
	if template == nil {
		return errChanged
	}
	r.mu.Lock()
	r.requested, r.cancel = template, cancel
	r.mu.Unlock()
	defer r.await("")
	key, err := r.cfg.Store.pendingKey()
	if err != nil {
		return err
	}
	certPEM, err := requester{client.SigningRequests(), r.cfg.Signer, r.await, r.cfg.Logger}.obtain(ctx, key, template)
	if errors.Is(context.Cause(ctx), errChanged) {
		err = errChanged
	}
	if err == nil {
		err = r.replace(certPEM, key, template)
	}
	if err == nil || isFinal(err) { // the same key would lead to the same request again
		err = errors.Join(err, r.cfg.Store.forgetKey())
	}
	return err
}

// isFinal reports whether the error of a request will not change.
func isFinal(err error) bool {
	for _, final := range []error{ErrDenied, ErrFailed, ErrGone, errChanged, errTimeout, errOther, errUnusable, apiserver.ErrExpired} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// replace stores a certificate that satisfies the template and starts to use it.
func (r *Rotator) replace(certPEM []byte, key crypto.Signer, template *x509.CertificateRequest) error {
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	if err := check(certPEM, keyPEM, template); err != nil {
		return err
	}
	c, err := r.cfg.Store.Update(certPEM, keyPEM)
	if err != nil {
		return err
	}
	old := r.current.Swap(c)
	r.cfg.Logger.Info("new certificate in use", "signer", r.cfg.Signer, "expires", c.Leaf.NotAfter)
	if old != nil && r.cfg.OnRotated != nil {
		r.cfg.OnRotated(time.Since(old.Leaf.NotBefore))
	}
	return nil
}

// errUnusable is the error of an issued certificate that does not satisfy its template.
var errUnusable = errors.New("the issued certificate")

// check rejects an unusable certificate, which would only lead to the next request.
func check(certPEM, keyPEM []byte, template *x509.CertificateRequest) error {
	c, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnusable, err)
	}
	if missing := lacks(c.Leaf, template); missing != "" {
		return fmt.Errorf("%w lacks %s", errUnusable, missing)
	}
	if expired(&c, time.Now()) {
		return fmt.Errorf("%w expired at %s", errUnusable, c.Leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// note records the result of a request. It logs an error when its text changes.
func (r *Rotator) note(err error) {
	r.mu.Lock()
	last := r.err
	r.err = err
	r.mu.Unlock()
	if err == nil {
		return
	}
	if last == nil || last.Error() != err.Error() {
		r.cfg.Logger.Error("cannot obtain a certificate; trying again", "signer", r.cfg.Signer, "err", err)
	}
	if r.cfg.OnError != nil {
		r.cfg.OnError(err)
	}
}
