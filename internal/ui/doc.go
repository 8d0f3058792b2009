// Package ui is the page that every node with the role api serves: a program in TypeScript (src), built by Vite into dist, which is
// committed and embedded, so that building Sagalog needs no Node. Beside it, at docs/, are the documents of Sagalog as plain HTML.
//
// The page uses the public HTTP API and nothing else. Its address holds all that it shows, so a link shows the same to another person.
//
// To change it, in this folder:
//
//	npm ci               # once; Node 20.19 or newer
//	npm run types        # after a change of the API: src/api/schema.d.ts, from the OpenAPI document of a running sagalog dev
//	npm run build        # checks the types and writes dist
//	npm test             # in Chromium, with the program that SAGALOG names: .ci/run page does it all
//
// PAGE_PICTURES=../../docs/img npm test -- pictures writes the pictures of the README again.
//
// # Files of src
//
//	main.tsx     the frame: header, search, screens, help
//	access.tsx   the token, for this tab only, and what its role may do
//	router.ts    the address
//	live.ts      when to read again, and how old what is shown is
//	stream.ts    the one stream of the tab, which says when something changed
//	keys.ts      keys
//	api/         calls, and the types that are generated from the OpenAPI document
//	parts/       what several screens use
//	views/       one file a screen, and charts
//
// # Invariants
//
//   - Everything comes from the page's own origin, and nothing is inline: the Content-Security-Policy needs no `unsafe-inline`.
//   - The page never hides that what it shows is stale: the badge in the header says for how long it has been.
//   - A colour never stands without its word. Every action can be reached by keyboard.
//   - dist is what `npm run build` writes from src: CI builds it again and compares.
package ui
