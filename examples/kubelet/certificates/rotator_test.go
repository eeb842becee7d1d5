package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// rotation is a Rotator of a serving certificate with its dependencies.
type rotation struct {
	*Rotator
	*cluster
	t      *testing.T
	config RotatorConfig

	mu        sync.Mutex
	addresses []v1.NodeAddress
	ages      []time.Duration
	errs      []error
}

func newRotation(t *testing.T, addresses ...string) *rotation {
	r := &rotation{t: t, cluster: newCluster(t), addresses: addressesOf(addresses...)}
	r.config = RotatorConfig{
		Client: r.Client(t), Signer: certv1.KubeletServingSignerName, Store: Store{Dir: at(t.TempDir(), "pki"), Name: "kubelet-server"},
		Template: func() *x509.CertificateRequest {
			r.mu.Lock()
			defer r.mu.Unlock()
			return ServingRequest("worker", r.addresses)
		},
		OnRotated: func(age time.Duration) { r.ages = append(r.ages, age) },
		OnError:   func(err error) { r.errs = append(r.errs, err) },
	}
	return r
}

func rotating(t *testing.T, test func(t *testing.T, r *rotation), addresses ...string) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t, addresses...)
		r.start()
		test(t, r)
	})
}

// start starts a Rotator, as after a restart of the agent.
func (r *rotation) start() (stop func()) {
	var err error
	r.Rotator, err = NewRotator(r.config)
	require.NoError(r.t, err)
	stop = apitest.Run(r.t, r.Rotator.Run)
	synctest.Wait()
	return stop
}

func (r *rotation) move(addresses ...string) {
	r.mu.Lock()
	r.addresses = addressesOf(addresses...)
	r.mu.Unlock()
	r.Wake()
	synctest.Wait()
}

func serial(c *tls.Certificate) string {
	if c == nil {
		return ""
	}
	return c.Leaf.SerialNumber.String()
}

// A17: without an approval there is no certificate and no error. An approved certificate is in use
// at once, and the next start finds it.
func TestServingCertificateIsRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t, "10.0.0.1", "fd00::1")
		stop := r.start()
		require.Nil(t, r.Current())
		request := r.only()
		require.Equal(t, certv1.KubeletServingSignerName, request.Spec.SignerName)
		require.Equal(t, []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth}, request.Spec.Usages)
		time.Sleep(30 * time.Minute)
		require.Nil(t, r.Current())
		require.NoError(t, r.Err())
		began := time.Now()
		asked := r.issue(request, 10*time.Hour)
		require.Zero(t, time.Since(began))
		require.Equal(t, "CN=system:node:worker,O=system:nodes", asked.Subject.String())
		require.Len(t, asked.IPAddresses, 2)
		require.Equal(t, request.Status.Certificate, certPEM(r.Current().Leaf.Raw))
		require.Empty(t, r.ages, "nothing was replaced")

		stop()
		before := serial(r.Current())
		require.ErrorIs(t, r.Run(t.Context()), ErrAlreadyRun)
		r.start()
		require.Equal(t, before, serial(r.Current()))
		require.Empty(t, r.pending())
	})
}

// The next certificate is requested after 70 to 90 % of the lifetime, at a random point.
func TestRotation(t *testing.T) {
	rotating(t, func(t *testing.T, r *rotation) {
		shares := map[int]bool{}
		r.issue(r.only(), 1000*time.Hour)
		for range 8 {
			began, before := time.Now(), serial(r.Current())
			for len(r.pending()) == 0 {
				pass(time.Hour)
			}
			share := time.Since(began).Hours() / 1000
			require.InDelta(t, 0.8, share, 0.101)
			shares[int(share*200)] = true
			require.Equal(t, before, serial(r.Current()), "the old certificate stays in use")
			r.issue(r.only(), 1000*time.Hour)
			require.NotEqual(t, before, serial(r.Current()))
			require.InDelta(t, time.Since(began).Hours(), r.ages[len(r.ages)-1].Hours(), 0.1)
		}
		require.Greater(t, len(shares), 2)
		require.Empty(t, r.errs)
	}, "10.0.0.1")
}

// A certificate that is due for replacement from the start, because kube-controller-manager dates it
// back by five minutes, is replaced, but not without pauses.
func TestRotationHasPauses(t *testing.T) {
	rotating(t, func(t *testing.T, r *rotation) {
		r.ca.backdate = 5 * time.Minute
		count := 0
		for began := time.Now(); time.Since(began) < time.Minute; pass(100 * time.Millisecond) {
			for _, request := range r.pending() {
				r.issue(request, 25*time.Second)
				count++
			}
		}
		require.InDelta(t, time.Minute/pauseMin, count, 2)
		require.NotNil(t, r.Current())
	}, "10.0.0.1")
}

// An expired certificate is not returned.
func TestExpired(t *testing.T) {
	rotating(t, func(t *testing.T, r *rotation) {
		r.issue(r.only(), time.Hour)
		time.Sleep(59 * time.Minute)
		require.NotNil(t, r.Current())
		time.Sleep(2 * time.Minute)
		require.Nil(t, r.Current())
		synctest.Wait()
		r.issue(r.only(), time.Hour)
		require.NotNil(t, r.Current())
	}, "10.0.0.1")
}

// A new address gets a certificate at once. An outdated request is abandoned.
func TestAddressesChange(t *testing.T) {
	rotating(t, func(t *testing.T, r *rotation) {
		time.Sleep(time.Hour)
		require.Empty(t, r.pending(), "no template yet")
		r.move("10.0.0.1")
		old := r.only()
		r.Wake()
		synctest.Wait()
		require.Equal(t, old.Name, r.only().Name, "the template has not changed")
		r.move("10.0.0.2")
		require.Len(t, r.pending(), 2)
		r.issue(old, 10*time.Hour)
		require.Nil(t, r.Current(), "it has a former address")
		r.issue(r.only(), 10*time.Hour)
		require.Equal(t, "10.0.0.2", r.Current().Leaf.IPAddresses[0].String())
		r.move("10.0.0.2", "10.0.0.3")
		require.NotNil(t, r.Current(), "the old certificate stays in use")
		r.issue(r.only(), 10*time.Hour)
		require.Len(t, r.Current().Leaf.IPAddresses, 2)
		r.move("10.0.0.3")
		require.Empty(t, r.pending(), "it has more names than required")
		r.move()
		require.Empty(t, r.pending())
		require.NotNil(t, r.Current())
		require.Empty(t, r.errs)
	})
}

// Refused requests are repeated with a growing pause (see TestPauseAfter).
func TestRefusedRequests(t *testing.T) {
	rotating(t, func(t *testing.T, r *rotation) {
		for i, want := range []error{ErrDenied, ErrFailed, ErrGone, ErrDenied, ErrFailed} {
			request := r.only()
			if want == ErrGone {
				r.Remove(request)
				synctest.Wait()
			} else {
				r.decide(request, map[error]certv1.RequestConditionType{ErrDenied: certv1.CertificateDenied, ErrFailed: certv1.CertificateFailed}[want])
			}
			require.ErrorIs(t, r.Err(), want)
			require.ErrorContains(t, r.Err(), request.Name)
			require.Empty(t, r.pending(), "not at once")
			pass(pauseMin<<i*5/4 + time.Second)
			require.NotEqual(t, request.Name, r.only().Name, "each has its own key")
		}
		r.issue(r.only(), time.Hour)
		require.NoError(t, r.Err())
		require.Len(t, r.errs, 5)
	}, "10.0.0.1")
}

// Unusable issued certificates are rejected.
func TestUnusableCertificatesAreRejected(t *testing.T) {
	rotating(t, func(t *testing.T, r *rotation) {
		next := func() *certv1.CertificateSigningRequest {
			pass(2 * pauseMax)
			return r.only()
		}
		r.issue(next(), -time.Minute)
		require.ErrorContains(t, r.Err(), "the issued certificate expired at")
		r.issue(next(), time.Hour, func(c *x509.CertificateRequest) { c.IPAddresses = nil })
		require.ErrorContains(t, r.Err(), "lacks the address 10.0.0.1")
		r.issue(next(), time.Hour, func(c *x509.CertificateRequest) { c.PublicKey = newKey(t).Public() })
		require.ErrorContains(t, r.Err(), "private key does not match")
		request := next()
		request.Status.Certificate = []byte("none")
		r.decide(request, certv1.CertificateApproved)
		require.ErrorContains(t, r.Err(), "the issued certificate: ")
		require.Nil(t, r.Current())
		require.NoFileExists(t, r.config.Store.CurrentPath())

		require.NoError(t, os.MkdirAll(r.config.Store.Dir, 0o700))
		write(t, r.config.Store.CurrentPath(), nil)
		r.issue(next(), time.Hour)
		require.ErrorContains(t, r.Err(), "is not a symbolic link", "it cannot be stored")
		require.Nil(t, r.Current())
	}, "10.0.0.1")
}

// The Rotator waits for the signature of an approved request. It gives up a request that is not
// approved within an hour.
func TestApprovalTimeout(t *testing.T) {
	rotating(t, func(t *testing.T, r *rotation) {
		request := r.only()
		r.decide(request, certv1.CertificateApproved)
		require.Nil(t, r.Current())
		time.Sleep(50 * time.Minute)
		require.Len(t, apitest.All[*certv1.CertificateSigningRequest](r.Server), 1)
		pass(20 * time.Minute)
		require.ErrorContains(t, r.errs[0], "not approved within 1h0m0s")
		require.ErrorIs(t, r.errs[0], context.DeadlineExceeded)
		r.issue(r.only(), time.Hour)
		require.NotNil(t, r.Current())
	}, "10.0.0.1")
}

// A server that fails, is unreachable, loses responses or ends watches causes only delay.
func TestServerFaultsOnlyDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t, "10.0.0.1")
		r.SetDown(true)
		r.start()
		pass(time.Minute)
		require.NotEmpty(t, r.errs)
		cut := true
		r.SetFault(func(c apitest.Call) apitest.Fault {
			f := apitest.Fault{Cut: cut && c.Verb == "create"}
			cut = false
			return f
		})
		r.SetDown(false)
		pass(2 * pauseMax)
		request := r.pending()[len(r.pending())-1]
		r.SetDown(true)
		time.Sleep(10 * time.Minute)
		r.SetDown(false)
		r.Forget()
		time.Sleep(10 * time.Second)
		r.issue(request, time.Hour)
		time.Sleep(10 * time.Second)
		require.Equal(t, certPEM(r.Current().Leaf.Raw), request.Status.Certificate)
	})
}

// A request whose response was lost is found by its name. A request of another key or client is not
// used.
func TestExistingRequestIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a := requester{requests: c.Client(t).SigningRequests(), signer: certv1.KubeletServingSignerName, onWait: func(string) {}, log: discard()}
		key, template := newKey(t), ServingRequest("worker", addressesOf("10.0.0.1"))
		own, err := a.newRequest(key, template)
		require.NoError(t, err)
		c.Put(own)
		done := make(chan error, 1)
		ask := func() {
			go func() { _, err := a.obtain(t.Context(), key, template); done <- err }()
			synctest.Wait()
		}
		ask()
		c.issue(c.only(), time.Hour)
		require.NoError(t, <-done)

		for _, change := range []func(*certv1.CertificateSigningRequest){
			func(r *certv1.CertificateSigningRequest) { r.Spec.SignerName = "other" },
			func(r *certv1.CertificateSigningRequest) { r.Spec.Request = []byte("none") },
			func(r *certv1.CertificateSigningRequest) {
				other, err := a.newRequest(newKey(t), template)
				require.NoError(t, err)
				r.Spec.Request = other.Spec.Request
			},
		} {
			theirs := own.DeepCopy()
			change(theirs)
			c.Put(theirs)
			ask()
			require.ErrorContains(t, <-done, own.Name)
		}

		c.Remove(own)
		ask()
		mine := c.only()
		c.Remove(mine)
		synctest.Wait()
		require.ErrorIs(t, <-done, ErrGone)
		_, err = outcome(&certv1.CertificateSigningRequest{}, "u-1")
		require.ErrorIs(t, err, ErrGone, "another object")
	})
}

// An unreadable store is replaced. A certificate of another node is not used.
func TestStoreAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t, "10.0.0.1")
		cert, key := r.ca.pair(ServingRequest("other", addressesOf("10.0.0.1")), time.Hour)
		_, err := r.config.Store.Update(cert, key)
		require.NoError(t, err)
		stop := r.start()
		r.issue(r.only(), time.Hour)
		require.Equal(t, "system:node:worker", r.Current().Leaf.Subject.CommonName)
		stop()
		target, err := os.Readlink(r.config.Store.CurrentPath())
		require.NoError(t, err)
		write(t, at(r.config.Store.Dir, target), []byte("half"))
		r.start()
		require.Nil(t, r.Current())
		r.issue(r.only(), time.Hour)
		require.NotNil(t, r.Current())
	})
}

func TestRotatorConfigIsChecked(t *testing.T) {
	_, err := NewRotator(RotatorConfig{Signer: "x"})
	require.EqualError(t, err, `certificates: RotatorConfig.Client is required
certificates: RotatorConfig.Store.Dir is required
certificates: RotatorConfig.Store.Name is required
certificates: RotatorConfig.Template is required
certificates: RotatorConfig.Signer "x" is not a signer of kubelet certificates`)
}

func TestPauses(t *testing.T) {
	down, after := errors.New("down"), backOff{}
	for _, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		require.Equal(t, want*time.Second, after.pause(down, false))
	}
	require.Equal(t, 10*time.Second, after.pause(down, true))
	require.Equal(t, 2*time.Second, after.pause(ErrDenied, false), "the first refusal after an outage")
	for range 20 {
		after.pause(ErrFailed, true)
	}
	require.Equal(t, 10*time.Minute, after.pause(ErrDenied, true))
}
