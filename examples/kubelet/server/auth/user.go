package auth

import (
	"context"
	"slices"

	authv1 "k8s.io/api/authentication/v1"
)

// User is the user of a request: name, UID, groups and extra fields of the credentials.
type User = authv1.UserInfo

const (
	// Anonymous is the name of the user of requests without credentials.
	Anonymous = "system:anonymous"

	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	// credentialID is the key of the extra field that identifies the certificate.
	credentialID = "authentication.kubernetes.io/credential-id"
)

type userKey struct{}

// WithUser returns a context with the user of a request.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user of a request's context. It returns false outside of Handler.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

// authenticatedUser returns an authenticated user, with the group for such users.
func authenticatedUser(u User) User {
	if !slices.Contains(u.Groups, authenticated) && !slices.Contains(u.Groups, unauthenticated) {
		u.Groups = append(slices.Clip(u.Groups), authenticated)
	}
	return u
}

func anonymous() User { return User{Username: Anonymous, Groups: []string{unauthenticated}} }
