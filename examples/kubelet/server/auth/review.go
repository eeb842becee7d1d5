package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Reviews verifies tokens and permissions. apiserver.Client implements it. Calls are concurrent and
// must end with their context. A negative status is not an error.
type Reviews interface {
	ReviewToken(ctx context.Context, r *authv1.TokenReview) (*authv1.TokenReview, error)
	ReviewAccess(ctx context.Context, r *authzv1.SubjectAccessReview) (*authzv1.SubjectAccessReview, error)
}

const (
	// maxResults is the maximum number of cached results of each kind. The least recently used ones
	// are removed first.
	maxResults = 8192
	// reviewTimeout bounds a review with its retries.
	reviewTimeout = 10 * time.Second
)

// reviewCache caches results of reviews. Concurrent equal requests share one review.
type reviewCache[T any] struct {
	results *cache.LRUExpireCache
	flight  singleflight.Group
}

func newReviewCache[T any]() *reviewCache[T] {
	return &reviewCache[T]{results: cache.NewLRUExpireCache(maxResults)}
}

// get returns the cached result of a question, or calls review. review returns its result's
// lifetime in the cache; errors are not cached. The call may serve several requests, so it ends
// after reviewTimeout or at the deadline of the first one, but not when the first client leaves.
func (a *reviewCache[T]) get(ctx context.Context, question any, review func(context.Context) (T, time.Duration, error)) (none T, err error) {
	text, err := json.Marshal(question)
	if err != nil {
		return none, err
	}
	key := sha256.Sum256(text) // a hash, so that tokens do not stay in memory
	result, err, _ := a.flight.Do(string(key[:]), func() (any, error) {
		if result, ok := a.results.Get(key); ok { // an earlier flight may have just ended
			return result, nil
		}
		end := time.Now().Add(reviewTimeout)
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
			end = deadline
		}
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
		defer cancel()
		result, ttl, err := review(ctx)
		if err == nil && ttl > 0 {
			a.results.Add(key, result, ttl)
		}
		return result, err
	})
	if err != nil {
		return none, err
	}
	return result.(T), nil
}

func repeated[T any](ctx context.Context, call func(context.Context) (T, error)) (out T, err error) {
	pauses := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	ended := wait.ExponentialBackoffWithContext(ctx, pauses, func(ctx context.Context) (bool, error) {
		out, err = call(ctx)
		return err == nil || !passes(err), nil
	})
	if err == nil {
		err = ended // ctx ended before the first call
	}
	return out, err
}

func passes(err error) bool {
	_, later := apierrors.SuggestsClientDelay(err)
	return later || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}

// tokenUser returns the user of a token, as reviewed by the API server.
func (a *Auth) tokenUser(ctx context.Context, token string) (User, error) {
	spec := authv1.TokenReviewSpec{Token: token}
	status, err := a.tokens.get(ctx, spec, func(ctx context.Context) (s authv1.TokenReviewStatus, ttl time.Duration, err error) {
		r, err := repeated(ctx, func(ctx context.Context) (*authv1.TokenReview, error) {
			return a.cfg.Reviews.ReviewToken(ctx, &authv1.TokenReview{Spec: spec})
		})
		if err != nil {
			return s, 0, err
		}
		if !r.Status.Authenticated && r.Status.Error != "" {
			return r.Status, 0, nil // not cached: the error may be the server's
		}
		return r.Status, a.cfg.Tokens.TTL, nil
	})
	switch {
	case err != nil:
		return User{}, fmt.Errorf("bearer token: review: %w", err)
	case !status.Authenticated && status.Error != "":
		return User{}, fmt.Errorf("bearer token: %s", status.Error)
	case !status.Authenticated:
		return User{}, errors.New("bearer token: not valid")
	}
	return status.User, nil
}

// allowed returns the API server's decision about a user's access to this node.
func (a *Auth) allowed(ctx context.Context, u User, verb, subresource string) (bool, error) {
	spec := authzv1.SubjectAccessReviewSpec{
		User: u.Username, UID: u.UID, Groups: u.Groups, Extra: extraOf(u),
		ResourceAttributes: &authzv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: a.cfg.NodeName,
		},
	}
	return a.accesses.get(ctx, spec, func(ctx context.Context) (bool, time.Duration, error) {
		r, err := repeated(ctx, func(ctx context.Context) (*authzv1.SubjectAccessReview, error) {
			return a.cfg.Reviews.ReviewAccess(ctx, &authzv1.SubjectAccessReview{Spec: spec})
		})
		switch {
		case err != nil:
			return false, 0, err
		case r.Status.Allowed && r.Status.Denied:
			return false, 0, errors.New("the API server both allowed and denied access")
		case r.Status.Allowed:
			return true, a.cfg.AllowedTTL, nil
		}
		return false, a.cfg.DeniedTTL, nil
	})
}

func extraOf(u User) map[string]authzv1.ExtraValue {
	if u.Extra == nil {
		return nil
	}
	out := make(map[string]authzv1.ExtraValue, len(u.Extra))
	for key, values := range u.Extra {
		out[key] = authzv1.ExtraValue(values)
	}
	return out
}
