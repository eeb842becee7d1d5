package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	authv1 "k8s.io/api/authentication/v1"

	"github.com/podwright/podwright/internal/fields"
)

// Mode says who decides what is allowed. Its values are those of the configuration file.
type Mode string

const (
	// AlwaysAllow allows everything to whoever is somebody.
	AlwaysAllow Mode = "AlwaysAllow"
	// Webhook asks the API server.
	Webhook Mode = "Webhook"
)

// Tokens says what is done with bearer tokens.
type Tokens struct {
	// Enabled has them reviewed; otherwise they are not looked at.
	Enabled bool
	// TTL is how long a review counts; zero means 2 min.
	TTL time.Duration
}

// Config configures an Auth. NodeName and Mode are required, Reviews where it is asked:
// with Tokens.Enabled or the mode Webhook.
type Config struct {
	// NodeName is that of the Node whose subresources are asked for.
	NodeName string
	// ClientCAs returns the authorities that vouch for client certificates, as they are now;
	// nil, or a nil pool, means none: nobody is known by a certificate then. It is called at
	// each request.
	ClientCAs func() *x509.CertPool
	// Tokens is authentication.webhook of the configuration file.
	Tokens Tokens
	// Anonymous lets in who has shown no credentials, as far as Mode allows.
	Anonymous bool
	// Mode is required: nothing is allowed by default.
	Mode Mode
	// AllowedTTL and DeniedTTL are how long an answer of the API server counts; zero means 5
	// min and 30 s.
	AllowedTTL, DeniedTTL time.Duration
	// Reviews is the API server.
	Reviews Reviews
	// Logger is told who was refused, and why; nil discards.
	Logger *slog.Logger
}

// Auth decides about requests. Use New. It is safe for concurrent use and leaves nothing
// running.
type Auth struct {
	cfg      Config
	tokens   *answers[authv1.TokenReviewStatus]
	accesses *answers[bool]
}

// ErrUnauthenticated says that it is not known who makes a request.
var ErrUnauthenticated = errors.New("unauthenticated")

// ForbiddenError says who may not do what.
type ForbiddenError struct {
	User string
	Attributes
}

// Error is the text of the answer, which clients show.
func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", e.User, e.Verb, e.Subresources)
}

// New checks the configuration. That of a node without an API server cannot ask for
// reviews.
func New(cfg Config) (*Auth, error) {
	f := fields.Of("auth: Config")
	f.Required("NodeName", cfg.NodeName)
	if cfg.Mode != AlwaysAllow && cfg.Mode != Webhook {
		f.Refuse("Mode %q is neither %s nor %s", cfg.Mode, AlwaysAllow, Webhook)
	}
	if cfg.Tokens.Enabled || cfg.Mode == Webhook {
		if err := fields.Required("Reviews", cfg.Reviews); err != nil {
			f.Refuse("%w where the API server is asked: authentication.webhook.enabled is %t, authorization.mode %s", err, cfg.Tokens.Enabled, cfg.Mode)
		}
	}
	fields.Number(f, "Tokens.TTL", &cfg.Tokens.TTL, 2*time.Minute)
	fields.Number(f, "AllowedTTL", &cfg.AllowedTTL, 5*time.Minute)
	fields.Number(f, "DeniedTTL", &cfg.DeniedTTL, 30*time.Second)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Auth{cfg: cfg, tokens: newAnswers[authv1.TokenReviewStatus](), accesses: newAnswers[bool]()}, nil
}

// Authenticate says who makes a request, and takes the token out of its headers. All
// errors wrap ErrUnauthenticated.
func (a *Auth) Authenticate(r *http.Request) (User, error) {
	var wrong []error
	if roots := a.roots(); roots != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		u, err := userOf(r.TLS.PeerCertificates, roots)
		if err == nil {
			return known(u), nil
		}
		wrong = append(wrong, err)
	}
	if token, err := takeToken(r); a.cfg.Tokens.Enabled && (token != "" || err != nil) {
		var u User
		if err == nil {
			u, err = a.tokenUser(r.Context(), token)
		}
		if err == nil {
			return known(u), nil
		}
		wrong = append(wrong, err)
	}
	if len(wrong) == 0 && a.cfg.Anonymous {
		return stranger(), nil
	}
	return User{}, errors.Join(append([]error{ErrUnauthenticated}, wrong...)...)
}

func (a *Auth) roots() *x509.CertPool {
	if a.cfg.ClientCAs == nil {
		return nil
	}
	return a.cfg.ClientCAs()
}

// Authorize says whether a user may do what is asked for. The error is a ForbiddenError
// where that is known.
func (a *Auth) Authorize(ctx context.Context, u User, asked Attributes) error {
	if a.cfg.Mode == AlwaysAllow {
		return nil
	}
	for _, subresource := range asked.Subresources {
		ok, err := a.allowed(ctx, u, asked.Verb, subresource)
		if err != nil {
			return fmt.Errorf("may %q %s nodes/%s: review: %w", u.Username, asked.Verb, subresource, err)
		}
		if ok {
			return nil
		}
	}
	return &ForbiddenError{User: u.Username, Attributes: asked}
}

// Handler lets through to next who may do what he asks for; UserFrom tells next who that
// is. Others get 401, 400 (ErrPath), 403, or 500 where it cannot be found out.
func (a *Auth) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := a.Authenticate(r)
		if err != nil {
			a.refuse(w, r, http.StatusUnauthorized, "Unauthorized", err)
			return
		}
		asked, err := AttributesOf(r.Method, r.URL)
		if err != nil {
			a.refuse(w, r, http.StatusBadRequest, err.Error(), err)
			return
		}
		var forbidden *ForbiddenError
		switch err := a.Authorize(r.Context(), u, asked); {
		case errors.As(err, &forbidden):
			a.refuse(w, r, http.StatusForbidden, err.Error(), err)
		case err != nil:
			// What went wrong between the agent and its server is for the log.
			text := fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", u.Username, asked.Verb, asked.Subresources)
			a.refuse(w, r, http.StatusInternalServerError, text, err)
		default:
			next.ServeHTTP(w, r.WithContext(WithUser(r.Context(), u)))
		}
	})
}

// refuse answers, and tells the log more than the client. What strangers do wrong is not
// worth a line each.
func (a *Auth) refuse(w http.ResponseWriter, r *http.Request, status int, text string, err error) {
	level := slog.LevelDebug
	if status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	a.cfg.Logger.Log(r.Context(), level, "a request was refused", "status", status, "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "err", err)
	http.Error(w, text, status)
}
