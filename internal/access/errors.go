package access

import "errors"

// The reasons for which a caller is not recognized.
var (
	// ErrMissing: the request has no token.
	ErrMissing = errors.New("the request has no token")
	// ErrUnknown: the token is not valid here, or no longer.
	ErrUnknown = errors.New("the token is not valid here")
	// ErrExpired: the token was valid once.
	ErrExpired = errors.New("the token has expired")
	// ErrNoRole: the identity provider vouches for the caller, but no group of the caller has a role here.
	ErrNoRole = errors.New("the token is valid, but none of its groups has a role here")
	// ErrNoAnswer: the identity provider does not answer, so its tokens cannot be checked.
	ErrNoAnswer = errors.New("the identity provider does not answer")
	// ErrUnsigned: the request claims to come from another node, and its signature is not valid here.
	ErrUnsigned = errors.New("the request of another node has no valid signature")
	// ErrExists: a token with this name exists.
	ErrExists = errors.New("a token with this name exists")
	// ErrNotFound: no token has this name.
	ErrNotFound = errors.New("no token has this name")
)
