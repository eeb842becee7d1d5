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

// Mode selects the authorizer. Its values are the configuration file's.
type Mode string

const (
	// AlwaysAllow allows all authenticated requests.
	AlwaysAllow Mode = "AlwaysAllow"
	// Webhook lets the API server decide.
	Webhook Mode = "Webhook"
)

// Tokens configures bearer tokens.
type Tokens struct {
	// Enabled enables reviews of tokens. Without it tokens are ignored.
	Enabled bool
	// TTL is the lifetime of a cached review. Default: 2 min.
	TTL time.Duration
}

// Config configures an Auth. NodeName and Mode are required. Reviews is required with
// Tokens.Enabled or the mode Webhook.
type Config struct {
	// NodeName is the name of the Node whose subresources are authorized.
	NodeName string
	// ClientCAs returns the current authorities for client certificates. It is called at each
	// request. If it is nil or returns nil, certificates do not authenticate.
	ClientCAs func() *x509.CertPool
	// Tokens is authentication.webhook of the configuration file.
	Tokens Tokens
	// Anonymous accepts requests without credentials, subject to Mode.
	Anonymous bool
	// Mode is required; there is no default.
	Mode Mode
	// AllowedTTL and DeniedTTL are the lifetimes of cached decisions. Defaults: 5 min and 30 s.
	AllowedTTL, DeniedTTL time.Duration
	// Reviews is the client of the API server.
	Reviews Reviews
	// Logger receives refused requests with the reason. Default: discard.
	Logger *slog.Logger
}

// Auth authenticates and authorizes requests. Create it with New. It is safe for concurrent use and
// needs no shutdown.
type Auth struct {
	cfg      Config
	tokens   *reviewCache[authv1.TokenReviewStatus]
	accesses *reviewCache[bool]
}

// ErrUnauthenticated is wrapped by errors for requests without valid credentials.
var ErrUnauthenticated = errors.New("unauthenticated")

// ForbiddenError is the denial of a user's request.
type ForbiddenError struct {
	User string
	Attributes
}

// Error returns the text of the response, which clients show.
func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", e.User, e.Verb, e.Subresources)
}

// New checks the configuration. Without Reviews, tokens and the mode Webhook are errors.
func New(cfg Config) (*Auth, error) {
	f := fields.Of("auth: Config")
	f.Required("NodeName", cfg.NodeName)
	if cfg.Mode != AlwaysAllow && cfg.Mode != Webhook {
		f.Refuse("Mode %q is neither %s nor %s", cfg.Mode, AlwaysAllow, Webhook)
	}
	if cfg.Tokens.Enabled || cfg.Mode == Webhook {
		if err := fields.Required("Reviews", cfg.Reviews); err != nil {
			f.Refuse("%w if reviews are enabled: authentication.webhook.enabled is %t, authorization.mode %s", err, cfg.Tokens.Enabled, cfg.Mode)
		}
	}
	fields.Number(f, "Tokens.TTL", &cfg.Tokens.TTL, 2*time.Minute)
	fields.Number(f, "AllowedTTL", &cfg.AllowedTTL, 5*time.Minute)
	fields.Number(f, "DeniedTTL", &cfg.DeniedTTL, 30*time.Second)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Auth{cfg: cfg, tokens: newReviewCache[authv1.TokenReviewStatus](), accesses: newReviewCache[bool]()}, nil
}

// Authenticate returns the user of a request, and removes the token from its headers. All errors
// wrap ErrUnauthenticated.
func (a *Auth) Authenticate(r *http.Request) (User, error) {
	var wrong []error
	if roots := a.roots(); roots != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		u, err := userOf(r.TLS.PeerCertificates, roots)
		if err == nil {
			return authenticatedUser(u), nil
		}
		wrong = append(wrong, err)
	}
	if token, err := takeToken(r); a.cfg.Tokens.Enabled && (token != "" || err != nil) {
		var u User
		if err == nil {
			u, err = a.tokenUser(r.Context(), token)
		}
		if err == nil {
			return authenticatedUser(u), nil
		}
		wrong = append(wrong, err)
	}
	if len(wrong) == 0 && a.cfg.Anonymous {
		return anonymous(), nil
	}
	return User{}, errors.Join(append([]error{ErrUnauthenticated}, wrong...)...)
}

func (a *Auth) roots() *x509.CertPool {
	if a.cfg.ClientCAs == nil {
		return nil
	}
	return a.cfg.ClientCAs()
}

// Authorize returns nil if a user has permission for the attributes. A denial is a ForbiddenError;
// other errors are failed reviews.
func (a *Auth) Authorize(ctx context.Context, u User, attributes Attributes) error {
	if a.cfg.Mode == AlwaysAllow {
		return nil
	}
	for _, subresource := range attributes.Subresources {
		ok, err := a.allowed(ctx, u, attributes.Verb, subresource)
		if err != nil {
			return fmt.Errorf("reviewing access of user %q to %s nodes/%s: %w", u.Username, attributes.Verb, subresource, err)
		}
		if ok {
			return nil
		}
	}
	return &ForbiddenError{User: u.Username, Attributes: attributes}
}

// Handler calls next for authorized requests, with the user in the context (UserFrom). Other
// requests get 401, 400 (ErrPath), 403, or 500 after a failed review, and their connection is closed.
// All reviews of a request take at most 10 s in sum.
func (a *Auth) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
		defer cancel()
		u, err := a.Authenticate(r.WithContext(ctx))
		if err != nil {
			a.refuse(w, r, http.StatusUnauthorized, "Unauthorized", err)
			return
		}
		attributes, err := AttributesOf(r.Method, r.URL)
		if err != nil {
			a.refuse(w, r, http.StatusBadRequest, err.Error(), err)
			return
		}
		var forbidden *ForbiddenError
		switch err := a.Authorize(ctx, u, attributes); {
		case errors.As(err, &forbidden):
			a.refuse(w, r, http.StatusForbidden, err.Error(), err)
		case err != nil:
			// Details of the failed review are only logged.
			text := fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", u.Username, attributes.Verb, attributes.Subresources)
			a.refuse(w, r, http.StatusInternalServerError, text, err)
		default:
			cancel()
			next.ServeHTTP(w, r.WithContext(WithUser(r.Context(), u)))
		}
	})
}

// refuse writes an error response, and logs the details. Refusals caused by clients are logged at
// the debug level only. It closes the connection, and does not wait for the body of the request.
func (a *Auth) refuse(w http.ResponseWriter, r *http.Request, status int, text string, err error) {
	level := slog.LevelDebug
	if status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	a.cfg.Logger.Log(r.Context(), level, "request refused", "status", status, "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "err", err)
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)) // fails only without a connection
	http.Error(w, text, status)
}
