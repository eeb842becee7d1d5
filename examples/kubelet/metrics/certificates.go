package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificates counts renewals of the kubelet's certificates.
type Certificates struct {
	// Serving has the callbacks for the certificate of the kubelet API, Client for the client
	// certificate.
	Serving, Client *Rotation
}

// Rotation counts renewals of one certificate that an API server issues.
type Rotation struct {
	age    prometheus.Histogram // nil: not counted
	failed prometheus.Counter
}

// Rotated is the OnRotated of package certificates.
func (r *Rotation) Rotated(age time.Duration) {
	if r.age != nil {
		r.age.Observe(age.Seconds())
	}
}

// Failed is the OnError of package certificates. It counts a request without a certificate.
func (r *Rotation) Failed(error) { r.failed.Inc() }

func newCertificates(b *builder) *Certificates {
	const noCertificate = "Number of failed certificate requests."
	return &Certificates{
		Serving: &Rotation{
			age:    b.histogram("kubelet_certificate_manager_server_rotation_seconds", "Age of the kubelet API's certificate at its replacement, in seconds.", lifetimes),
			failed: b.counter("kubelet_server_expiration_renew_errors", noCertificate),
		},
		Client: &Rotation{failed: b.counter("kubelet_certificate_manager_client_expiration_renew_errors", noCertificate)},
	}
}

// lifetimes are the buckets of the age of certificates: a minute, hours, days, months, years.
var lifetimes = []float64{60, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000}

func expiry(b *builder, l Live) {
	for _, c := range []struct {
		expires    func() time.Time
		name, help string
	}{
		{l.ServingExpires, "kubelet_certificate_manager_server_ttl_seconds", "Remaining lifetime of the kubelet API's certificate, in seconds; infinite without a certificate."},
		{l.ClientExpires, "kubelet_certificate_manager_client_ttl_seconds", "Remaining lifetime of the kubelet's client certificate, in seconds; infinite without a certificate."},
	} {
		if c.expires != nil {
			b.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: c.name, Help: c.help}, func() float64 { return remaining(c.expires()) }))
		}
	}
}

func credential(b *builder, l Live) {
	if l.Credential == nil {
		return
	}
	help := "Whether the credential for the API server is usable (1) and its renewal succeeds, or not (0)."
	b.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "podwright_api_credential_ok", Help: help}, func() float64 {
		if l.Credential() != nil {
			return 0
		}
		return 1
	}))
}

func remaining(expires time.Time) float64 {
	if expires.IsZero() {
		return math.Inf(1)
	}
	return math.Trunc(time.Until(expires).Seconds())
}
