package auth

import (
	"context"
	"slices"

	authv1 "k8s.io/api/authentication/v1"
)

// User is who makes a request: name, UID, groups, and what else its credentials say.
type User = authv1.UserInfo

const (
	// Anonymous is the name of who has shown no credentials.
	Anonymous = "system:anonymous"

	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	// credentialID is the key of the extra field that tells one certificate of a user from
	// another.
	credentialID = "authentication.kubernetes.io/credential-id"
)

type userKey struct{}

// WithUser returns a context that knows who makes a request.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom is who makes the request of a context; false outside of Handler.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

// known is a user that credentials vouch for.
func known(u User) User {
	if !slices.Contains(u.Groups, authenticated) && !slices.Contains(u.Groups, unauthenticated) {
		u.Groups = append(slices.Clip(u.Groups), authenticated)
	}
	return u
}

// stranger is a user without credentials.
func stranger() User { return User{Username: Anonymous, Groups: []string{unauthenticated}} }
