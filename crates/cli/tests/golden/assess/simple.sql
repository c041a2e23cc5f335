--
-- PostgreSQL database dump
--

\restrict sample

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: customer; Type: TABLE; Schema: public; Owner: ada
--

CREATE TABLE public.customer (
    id integer NOT NULL,
    name character varying(40) NOT NULL,
    "E-Mail" text,
    balance numeric(12,2) DEFAULT 0.00 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    born date,
    is_active boolean DEFAULT true NOT NULL
);


ALTER TABLE public.customer OWNER TO ada;

--
-- Name: empty; Type: TABLE; Schema: public; Owner: ada
--

CREATE TABLE public.empty (
    a smallint,
    b real
);


ALTER TABLE public.empty OWNER TO ada;

--
-- Name: purchase; Type: TABLE; Schema: public; Owner: ada
--

CREATE TABLE public.purchase (
    customer integer NOT NULL,
    number bigint NOT NULL,
    price double precision,
    at timestamp without time zone,
    code character(4) DEFAULT 'none'::bpchar
);


ALTER TABLE public.purchase OWNER TO ada;

--
-- Data for Name: customer; Type: TABLE DATA; Schema: public; Owner: ada
--

COPY public.customer (id, name, "E-Mail", balance, since, born, is_active) FROM stdin;
1	ada	ada@example.org	100.50	2026-01-01 12:00:00+00	1815-12-10	t
2	bob	\N	0.00	2026-01-02 12:00:00.5+00	\N	f
3	Zoë	tab\tline\nback\\slash	-1.00	2026-01-03 12:00:00+00	2000-02-29	t
4	\\.		9999999999.99	1999-12-31 23:59:59+00	0044-03-15 BC	t
\.


--
-- Data for Name: empty; Type: TABLE DATA; Schema: public; Owner: ada
--

COPY public.empty (a, b) FROM stdin;
\.


--
-- Data for Name: purchase; Type: TABLE DATA; Schema: public; Owner: ada
--

COPY public.purchase (customer, number, price, at, code) FROM stdin;
1	1	0.1	2026-01-01 12:00:00	ab  
1	2	Infinity	\N	\N
2	9007199254740993	NaN	2026-01-01 00:00:00.123456	none
\.


--
-- Name: customer customer_E-Mail_key; Type: CONSTRAINT; Schema: public; Owner: ada
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT "customer_E-Mail_key" UNIQUE ("E-Mail");


--
-- Name: customer customer_pkey; Type: CONSTRAINT; Schema: public; Owner: ada
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (id);


--
-- Name: purchase one_price; Type: CONSTRAINT; Schema: public; Owner: ada
--

ALTER TABLE ONLY public.purchase
    ADD CONSTRAINT one_price UNIQUE (price, at);


--
-- Name: purchase purchase_pkey; Type: CONSTRAINT; Schema: public; Owner: ada
--

ALTER TABLE ONLY public.purchase
    ADD CONSTRAINT purchase_pkey PRIMARY KEY (customer, number);


--
-- Name: customer_name; Type: INDEX; Schema: public; Owner: ada
--

CREATE UNIQUE INDEX customer_name ON public.customer USING btree (name, born DESC);


--
-- Name: purchase_at; Type: INDEX; Schema: public; Owner: ada
--

CREATE INDEX purchase_at ON public.purchase USING btree (at DESC NULLS LAST, price);


--
-- Name: TABLE customer; Type: ACL; Schema: public; Owner: ada
--

GRANT SELECT ON TABLE public.customer TO PUBLIC;


--
-- PostgreSQL database dump complete
--

\unrestrict sample

